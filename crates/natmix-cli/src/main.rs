//! The command line of natmix: from a table to a posterior, a verdict and an HTML report.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod numbers;
mod output;
mod processes;
mod progress;
mod settings;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use processes::Processes;
use std::process::ExitCode;

fn main() -> ExitCode {
    let processes = Processes::start();
    // One of several processes speaks for all.
    let speaks = processes.speaks();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if speaks => return refuse(&error),
        Err(error) => return ExitCode::from(error.exit_code() as u8),
    };
    processes.guard(|| match run(&cli.command, &processes) {
        Ok(code) => code,
        Err(error) => {
            if speaks {
                output::note(&format!("natmix: {}", message(&error)));
            }
            ExitCode::from(2)
        }
    })
}

/// Prints what is wrong with the arguments, or the help that they ask for.
fn refuse(error: &clap::Error) -> ExitCode {
    let strange = std::env::args_os().any(|argument| argument.to_string_lossy().contains(char::is_control));
    match strange {
        // In colour, on a terminal. If that fails there is nowhere to say so.
        false => drop(error.print()),
        true => output::note(error.render().to_string().trim_end()),
    }
    ExitCode::from(error.exit_code() as u8)
}

/// One line with its causes: what happened, and why. A cause that the line already contains is not repeated.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run(command: &Command, processes: &Processes) -> anyhow::Result<ExitCode> {
    let ranks = processes.ranks()?;
    if ranks.is_some() && !matches!(command, Command::Fit(_)) {
        anyhow::bail!("several processes can share `natmix fit` only: start this command without mpirun");
    }
    match command {
        Command::Fit(args) => commands::fit::run(args, ranks),
        Command::Predict(args) => commands::predict::run(args),
        Command::Prior(args) => commands::prior::run(args),
        Command::Sample(args) => commands::sample::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Test(args) => commands::test::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Experiments { experiment } => commands::experiments::run(experiment),
        Command::Demo(args) => commands::demo::run(args),
        Command::Reproduce(args) => commands::reproduce::run(args),
        Command::Methods => {
            output::print(&commands::methods::list())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "natmix", &mut script);
            output::print(&String::from_utf8(script)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            output::print(&String::from_utf8(page)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
