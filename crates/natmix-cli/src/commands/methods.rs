//! `natmix methods`: lists the names of methods and of their parts.

use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::rule::{Rule, WeightRule};
use natmix::{Method, Source};
use std::fmt::Write;

/// The list, one line per name.
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
    block("Methods (--method)", rows(&Method::ALL));
    block("Sources of points (--source)", rows(&Source::ALL));
    block("Draw plans (--draws)", rows(&Plan::ALL));
    block("Estimators (--estimator)", rows(&Estimator::ALL));
    block("Rules (--rule)", rows(&Rule::ALL));
    block("Weight rules (--weight-rule)", rows(&WeightRule::ALL));
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Names, each with its description.
fn rows<T>(all: &[(T, &'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    all.iter().map(|(_, name, about)| (*name, *about)).collect()
}
