//! `natmix methods`: every name that the other commands take.

use natmix::Method;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::rule::{Rule, WeightRule};
use std::fmt::Write;

/// The list, one line a name.
pub fn list() -> String {
    let mut text = String::new();
    let mut block = |title: &str, lines: Vec<(&str, &str)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}");
        for (name, about) in lines {
            let _ = writeln!(text, "  {name:<18}{about}");
        }
        text.push('\n');
    };
    block("Methods (--method)", Method::ALL.iter().map(|(_, name, about)| (*name, *about)).collect());
    block("Draw plans (--draws)", Plan::ALL.iter().map(|(_, name, about)| (*name, *about)).collect());
    block("Estimators (part of a method)", Estimator::ALL.iter().map(|(_, name, about)| (*name, *about)).collect());
    block("Rules (--rule)", Rule::ALL.iter().map(|(_, name, about)| (*name, *about)).collect());
    block("Weight rules (part of a method)", WeightRule::ALL.iter().map(|(_, name, about)| (*name, *about)).collect());
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
