//! The command line of natmix: from a table to a posterior, a verdict and a page of pictures.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod problem;
mod progress;
mod settings;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use natmix_report as report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(code) => code,
        Err(error) => {
            // One line with its causes: what happened, and why.
            eprintln!("natmix: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Fit(args) => commands::fit::run(args),
        Command::Predict(args) => commands::predict::run(args),
        Command::Sample(args) => commands::sample::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Demo(args) => commands::demo::run(args),
        Command::Methods => {
            print!("{}", commands::methods::list());
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "natmix", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
