//! What formulas can be written, what their errors say, and that no text makes them panic.

use natmix_models::formula::{Formula, FormulaDesign, FormulaOptions};
use natmix_models::table::Table;
use proptest::prelude::*;

/// Eight rows of y, x, `my x`, n, e, age and the categories g and h.
fn table() -> Table {
    let names = ["y", "x", "my x", "n", "e", "age", "g", "h"].map(String::from).to_vec();
    let row = |i: usize| {
        let wave = (i as f64 * 1.3).sin();
        let level = [(i % 3) as f64, (i / 3 % 2) as f64];
        [
            f64::from(i.is_multiple_of(2)),
            wave,
            wave * wave,
            4.0,
            f64::from(i.is_multiple_of(4)),
            20.0 + i as f64,
            level[0],
            level[1],
        ]
    };
    let mut table = Table::from_values("rows.csv", names, (0..8).flat_map(row).collect()).unwrap();
    table.levels.insert(6, ["a", "b", "c"].map(String::from).to_vec());
    table.levels.insert(7, ["no", "yes"].map(String::from).to_vec());
    table
}

fn design(formula: &str) -> Result<FormulaDesign, String> {
    let formula = Formula::parse(formula).map_err(|error| error.to_string())?;
    FormulaDesign::new(&formula, &table(), &FormulaOptions::default()).map_err(|error| error.to_string())
}

#[test]
fn formulas_are_written_back_in_their_usual_form() {
    let same = [
        "y ~ x",
        "~ x",
        "y ~ 0 + x + g",
        "y ~ -1 + x",
        "y ~ (x + g)^2 - x:g",
        "y ~ x * g * h + (1 | g)",
        "y ~ x/g/h + h %in% g",
        "y ~ (x + g):h",
        "y ~ . - x",
        "y ~ (1 + x || g/h) + (0 + x | g:h)",
        "log(y) ~ poly(x, 2, raw=TRUE) + s(age, k=8) + offset(log(n))",
        "y | trials(n) ~ x",
        "age | event(e) ~ x",
        "y ~ `my x` + C(g, ref=\"b\")",
        "y ~ I(-x^2 + 3 * (x - 1)/2) + I((-x)^2) + I(x^(-1)) + I(2^x^3)",
        "y ~ I(0.5 * x) + I(1e-7 * x) + I(1e300 * x)",
        "y ~ a - (b - c) - (-d)",
        "y ~ I(-(-x)) + I(x * (-2))",
    ];
    for text in same {
        assert_eq!(Formula::parse(text).unwrap().to_string(), text);
    }
    let usual = [
        ("y~x+ (g)", "y ~ x + g"),
        ("y ~ x**2", "y ~ x^2"),
        ("y ~ (((x)))", "y ~ x"),
        ("y ~ ((1|g))", "y ~ (1 | g)"),
        ("y ~ +x", "y ~ x"),
        ("y ~ x + -1", "y ~ x + (-1)"),
        ("y ~ `x`", "y ~ x"),
        ("y ~ C(g, ref='b')", "y ~ C(g, ref=\"b\")"),
        ("y ~ a * b / c", "y ~ a * b/c"),
        ("y\n  ~ x", "y ~ x"),
        ("y ~ I(2.0 * .5 * 1e2)", "y ~ I(2 * 0.5 * 100)"),
    ];
    for (text, expected) in usual {
        let formula = Formula::parse(text).unwrap();
        assert_eq!(formula.to_string(), expected);
        assert_eq!(Formula::parse(expected).unwrap(), formula);
    }
}

#[test]
fn the_same_terms_can_be_written_in_many_ways() {
    let same = [
        ("y ~ x * g", "y ~ x + g + x:g"),
        ("y ~ x + 1", "y ~ x"),
        ("y ~ x - 1", "y ~ 0 + x"),
        ("y ~ -1 + x", "y ~ x + -1"),
        ("y ~ 0 + x + 1", "y ~ x"),
        ("y ~ x - 0", "y ~ x"),
        ("y ~ g/h", "y ~ g + g:h"),
        ("y ~ g/(x + h)", "y ~ g + g:x + g:h"),
        ("y ~ g + h %in% g", "y ~ g + h:g"),
        ("y ~ (x + g + h)^2", "y ~ x * g * h - x:g:h"),
        ("y ~ x * g - x:g", "y ~ x + g"),
        ("y ~ x - (x + g) + h", "y ~ h"),
        ("y ~ (1 + x):g", "y ~ g + x:g"),
        ("y ~ x:x + g:g", "y ~ x + g"),
        ("y ~ x + log( n )+g", "y ~ x + log(n) + g"),
        ("y | trials(n) ~ .", "y ~ x + `my x` + e + age + g + h"),
        ("y ~ . + offset(e) + (1 | g)", "y ~ x + `my x` + n + age + h"),
        ("y ~ x + s(age) - age", "y ~ x"),
    ];
    for (one, other) in same {
        let (one_design, other_design) = (design(one).unwrap(), design(other).unwrap());
        assert_eq!(one_design.names, other_design.names, "{one}");
        assert_eq!(one_design.x, other_design.x, "{one}");
    }
    let removes = design("y ~ x - g").unwrap();
    assert_eq!(removes.warnings, ["`- g` removes nothing: the formula has no such term before it"]);
}

/// The message, the formula and the mark below it; a formula stands beside what its error must say and mark.
#[test]
fn errors_say_what_where_and_what_instead() {
    let cases: &[(&str, &str, &str)] = &[
        ("", "the formula is empty (write for example y ~ x1 + x2)", ""),
        ("  ", "the formula is empty", ""),
        ("x + g", "there is no `~` between the outcome and what explains it", "x + g"),
        ("y ~ x ~ g", "there is more than one `~`", "~ g"),
        ("y ~", "nothing stands after `~` (write ~ 1 for an intercept alone, ~ . for all other columns)", "~"),
        ("y ~ x +", "the formula ends where a column, number or function is expected", ""),
        ("y ~ x + * g", "a column, number or function is expected here", "* g"),
        ("y ~ x g", "an operator is missing before this (write `+` to add a term)", "g"),
        ("y ~ 2x", "an operator is missing before this", "x"),
        ("y z ~ x", "an operator is missing before this", "z ~ x"),
        ("y ~ ()", "there is nothing between these parentheses", "()"),
        ("y ~ (x + g", "this parenthesis is not closed", "(x + g"),
        ("y ~ log(x", "this parenthesis is not closed", "log(x"),
        ("y ~ x)", "no parenthesis was opened for this one", ")"),
        ("y ~ x, g", "a column, number or function is expected here", ", g"),
        ("y ~ 1 | g", "`|` stands between parentheses: (1 | group)", "| g"),
        ("y ~ (1 | g | h)", "there is a second `|` in these parentheses (write two terms", "| h)"),
        (
            "y ~ x > 2",
            "`>` has no meaning in a formula: it has no comparisons (make a column of it in the table)",
            "> 2",
        ),
        ("y ~ x == 2", "`=` has no meaning in a formula: it has no comparisons", "== 2"),
        ("y ~ x %o% g", "`%` has no meaning in a formula: did you mean %in%?", "%o% g"),
        ("y ~ x \u{2212} g", "(write the minus sign of the keyboard: -)", "\u{2212} g"),
        ("y ~ d$x", "`$` has no meaning in a formula: columns are named without their table", "$x"),
        ("y ~ x[1]", "(use parentheses)", "[1]"),
        ("y ~ x # g", "(a column whose name is not plain stands in backquotes: `my column`)", "# g"),
        ("y ~ `my x", "the closing ` is missing", "`my x"),
        ("y ~ C(g, ref=\"b)", "the closing \" is missing", "\"b)"),
        ("y ~ ``", "there is no name between these backquotes", "``"),
        ("y ~ I(1e999 * x)", "1e999 is not a finite number", "1e999 * x)"),
        ("y ~ 2 + x", "2 cannot be a term: only 1 and 0 can", "2 + x"),
        ("y ~ 0:x", "0 cannot be a term", "0:x"),
        ("y ~ \"x\"", "text in quotes cannot be a term", "\"x\""),
        ("y ~ x * -g", "a minus sign leaves a term out of a sum (write I(-x) for the negative of a column)", "-g"),
        ("y ~ x - (1 | g)", "varying effects can only be added to a formula (+)", "(1 | g)"),
        ("y ~ x * (1 | g)", "varying effects can only be added", "(1 | g)"),
        ("y ~ (x + offset(n)):g", "an offset can only be added", "offset(n)):g"),
        ("y ~ s(x):g", "a smooth can only be added", "s(x):g"),
        ("y ~ x^2", "as a term x^2 would be the same as x, since powers combine terms (write I(x^2)", "x^2"),
        ("y ~ (x + g)^1.5", "the power of a sum of terms is a whole number from 1 to 20", "1.5"),
        ("y ~ (x + g)^h", "the power of a sum of terms is a whole number", "h"),
        ("y ~ (0 | g)", "nothing varies here (write (1 | group) for intercepts", "(0 | g)"),
        ("y ~ (1 | g + h)", "groups are a column, a combination a:b, or nested columns a/b", "g + h)"),
        ("y ~ (1 | log(x))", "groups are a column", "log(x))"),
        ("y ~ (1 | g) + (x | g)", "`(intercept)` varies twice over `g` (write 0 + in one of the terms", "(x | g)"),
        ("y ~ 0", "nothing is left to explain the outcome (write ~ 1 for an intercept alone)", "0"),
        ("y ~ lgo(x)", "there is no function `lgo`; did you mean `log`? (the functions are log, log2,", "lgo(x)"),
        ("y ~ ln(x)", "there is no function `ln`; did you mean `log`?", "ln(x)"),
        ("y ~ te(x, age)", "there is no function `te`; did you mean `s(x) + s(z)`?", "te(x, age)"),
        ("y ~ x (1 | g)", "`x(` starts a function, in which `|` has no meaning (is a `+` missing", "x (1 | g)"),
        ("y ~ x (g + h)", "`x` is a column, not a function: an operator is missing after it", "x (g + h)"),
        ("y ~ log(x, 2)", "log does not take this argument (it takes x)", "2)"),
        ("y ~ log()", "log needs a column: log(x)", "log()"),
        ("y ~ poly(x, 2, row=TRUE)", "poly does not take this argument (it takes x, degree, raw)", "TRUE)"),
        ("y ~ poly(x, raw=2)", "poly needs raw to be TRUE or FALSE", "2)"),
        ("y ~ poly(x, 2.5)", "poly needs degree to be a whole number from 1 to 20", "2.5)"),
        ("y ~ poly(e, 2)", "poly of degree 2 needs more than 2 different values, and `e` has 2", "poly(e, 2)"),
        ("y ~ bs(x, df=2)", "bs needs df to be a whole number from 3 to 200", "2)"),
        ("y ~ bs(n)", "bs needs different values, and `n` has only one", "bs(n)"),
        ("y ~ scale(n)", "scale needs values that differ, and `n` is always the same", "scale(n)"),
        ("y ~ s(e)", "s needs at least 4 different values, and `e` has 2", "s(e)"),
        ("y ~ s(age, k=9)", "s cannot have k=9, since `age` has 8 different values (use k=8 or less)", "s(age, k=9)"),
        ("y ~ s(x, by=g)", "s has no `by` (write one smooth for all groups)", "g)"),
        ("y ~ s(x, age)", "s takes one column (write s(x) + s(z), one smooth for each)", "s(x, age)"),
        ("y ~ s()", "s needs a column: s(x) or s(x, k=10)", "s()"),
        ("y ~ offset(x, n)", "offset takes one argument", "offset(x, n)"),
        ("y ~ log(poly(x, 2))", "poly(...) gives several columns, so it cannot be calculated with", "poly(x, 2))"),
        ("y ~ I(x:age)", "`:` combines terms and cannot stand in arithmetic", "age)"),
        ("y ~ I(x + .)", "`.` combines terms and cannot stand in arithmetic", ".)"),
        ("y ~ I((1 | g))", "`|` combines terms", "(1 | g))"),
        (
            "y ~ agee + x",
            "there is no column `agee`; did you mean `age`? (the columns are `y`, `x`, `my x`,",
            "agee + x",
        ),
        ("y ~ Age", "there is no column `Age`; did you mean `age`?", "Age"),
        ("y ~ (1 | county)", "there is no column `county` (the columns are", "county)"),
        ("z ~ x", "there is no column `z`", "z ~ x"),
        ("y ~ log(g)", "column `g` holds categories, and log needs numbers", "g)"),
        ("log(g) ~ x", "column `g` holds categories, and log needs numbers", "g) ~ x"),
        ("y ~ offset(g)", "column `g` holds categories, and offset needs numbers", "g)"),
        (
            "y ~ C(g, ref=\"z\")",
            "column `g` has no level `z` to be the reference (its levels are `a`, `b`, `c`)",
            "\"z\")",
        ),
        ("y ~ C(log(x))", "C takes a column: C(x), or C(x, ref=\"level\")", "C(log(x))"),
        ("y ~ x + y", "`y` is the outcome and cannot explain itself (leave it out)", "y"),
        (
            "y ~ g + factor(g)",
            "two coefficients would be named `g=b` (write each column in one way only",
            "g + factor(g)",
        ),
        ("y | n ~ x", "only one of `trials(n)` and `event(e)` can stand between `|` and `~`", "n ~ x"),
        ("y | trials(n) + weights(e) ~ x", "only one of `trials(n)` and `event(e)`", "trials(n) + weights(e) ~ x"),
        ("y | weights(e) ~ x", "weights is not a part of formulas", "weights(e) ~ x"),
        ("y | cens(e) ~ x", "cens is written event(e)", "cens(e) ~ x"),
    ];
    for (formula, expected, marked) in cases {
        let message = design(formula).expect_err(formula);
        let lines: Vec<&str> = message.split("\n  ").collect();
        assert_eq!(lines.len(), 3, "{formula}: {message}");
        assert!(lines[0].contains(expected), "{formula}: {message}");
        let mark = lines[2].chars().position(|c| c == '^').unwrap();
        let from: String = lines[1].chars().skip(mark).collect();
        assert_eq!(from, *marked, "{message}");
        assert!(lines[2].trim().chars().all(|c| c == '^'), "{message}");
    }
}

#[test]
fn errors_of_values_name_the_row() {
    let cases = [
        ("y ~ log(x)", "rows.csv: row 1, column `x`: 0 is not positive, so it has no logarithm (log1p(x) takes 0"),
        ("y ~ sqrt(x)", "row 4, column `x`: -0.687766"),
        ("y ~ log1p(I(x - 1))", "row 1, column `x - 1`: -1 is not above -1, so log1p has no value"),
        ("y ~ exp(I(age * 100))", "row 1, column `age * 100`: 2000 is too large for exp"),
        ("y ~ I(age / x)", "row 1, column `age / x`: inf is a division by zero"),
        ("y ~ I(x^0.5)", "row 4, column `x^0.5`: NaN is a power of a negative number"),
        ("age | trials(n) ~ x", "row 1, column `age`: 20 is not a number of successes among the trials of its row"),
        ("y | trials(x) ~ age", "row 1, column `x`: 0 is not a number of trials (1, 2, 3, ...)"),
        ("age | event(n) ~ x", "row 1, column `n`: 4 is neither 1 (seen) nor 0 (censored)"),
        ("y ~ offset(log(x))", "row 1, column `x`: 0 is not positive"),
    ];
    for (formula, expected) in cases {
        let message = design(formula).expect_err(formula);
        assert!(message.contains(expected), "{formula}: {message}");
    }
}

#[test]
fn long_formulas_are_shown_around_the_place() {
    let many: Vec<String> = (0..50).map(|i| format!("column{i}")).collect();
    let message = design(&format!("y ~ {}", many.join(" + "))).unwrap_err();
    assert!(message.starts_with("there is no column `column0`"), "{message}");
    let text = format!("y ~ {} + x g + {}", ["x"; 50].join(" + "), ["x"; 50].join(" + "));
    let message = design(&text).unwrap_err();
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[1].starts_with("  ... ") && lines[1].ends_with(" ...") && lines[1].len() < 120, "{message}");
    assert_eq!(lines[1].chars().nth(lines[2].find('^').unwrap()), Some('g'), "{message}");
}

#[test]
fn unreasonable_formulas_are_refused() {
    let deep = format!("y ~ {}x{}", "(".repeat(90_000), ")".repeat(90_000));
    assert!(Formula::parse(&deep).unwrap_err().to_string().contains("nested more than 60 deep"));
    assert!(Formula::parse(&format!("y ~ {}x", "-".repeat(100_000))).unwrap_err().to_string().contains("nested"));
    assert!(Formula::parse(&format!("y ~ x{}", "^2".repeat(90_000))).unwrap_err().to_string().contains("nested"));
    assert!(Formula::parse(&format!("y ~ {}", "x + ".repeat(90_000))).unwrap_err().to_string().contains("longer than"));
    // A long sum is no problem.
    assert_eq!(design(&format!("y ~ {}x", "x + ".repeat(40_000))).unwrap().names, ["(intercept)", "x"]);
    let message =
        design("y ~ (x + n + e + age + g + h + `my x` + log(n) + exp(x) + abs(x) + sqrt(n) + I(x*x) + I(x/n))^13");
    let message = message.unwrap_err();
    assert!(message.contains("20004 coefficients, more than 20000"), "{message}");
    let message = design("~ C(y):C(x):C(n):C(e):C(age):g:h:C(`my x`):factor(y)").unwrap_err();
    assert!(message.contains("this has an interaction of more than 8 categories"), "{message}");
    let terms: Vec<String> = (1..=200).map(|i| format!("I(x + {i})")).collect();
    let message = design(&format!("y ~ ({})^3", terms.join(" + "))).unwrap_err();
    assert!(message.contains("this stands for more than 10000 terms"), "{message}");
}

/// Texts that are made of pieces of formulas, most of them nonsense.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "y", "x", "g", "h", "n", "age", "`my x`", "z", "1", "0", "2", "0.5", "1e3", "+", "-", "*", "/", ":", "^", "**",
        "|", "||", "(", ")", ",", "=", ".", "~", "%in%", "log(", "poly(", "s(", "bs(", "C(", "factor(", "offset(",
        "I(", "scale(", "ref=", "k=", "\"b\"", "TRUE", "trials(", "event(", " ", "'", "`", "\u{e9}", "(1|g)",
        "(x||g/h)",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in any::<String>(), tail in pieces()) {
        for text in [&text, &tail, &format!("y ~ {text}"), &format!("y ~ {tail}")] {
            if let Ok(formula) = Formula::parse(text) {
                let again = Formula::parse(&formula.to_string());
                prop_assert_eq!(again.as_ref().ok(), Some(&formula), "{} from {}", formula, text);
            }
            if let Err(message) = design(text) {
                prop_assert!(!message.is_empty());
            }
        }
    }

    #[test]
    fn every_damage_to_a_formula_is_an_error_or_a_formula(at in 0usize..120, what in pieces(), cut in 0usize..6) {
        let whole = "y | trials(n) ~ 0 + x * C(g, ref=\"b\") - x:g + poly(age, 2) + s(x, k=5) + (1 + x || g/h) + offset(log(n))";
        let at = at.min(whole.len());
        let text = format!("{}{}{}", &whole[..at], what, &whole[(at + cut).min(whole.len())..]);
        if let Ok(design) = design(&text) {
            prop_assert_eq!(design.x.len(), design.rows * design.dim);
            prop_assert!(design.x.iter().all(|value| value.is_finite()));
        }
    }
}

/// Settings of functions are no columns, and `.` hides none of those that are named beside it.
#[test]
fn a_formula_knows_the_columns_that_it_names() {
    for (formula, columns, all) in [
        ("y ~ poly(x, 2, raw=TRUE)", "y x", true),
        ("y ~ bs(x, df=5, degree=2) + s(age, k=5)", "y x age", true),
        ("y ~ C(g, ref=a) + C(h, no)", "y g h", true),
        ("y ~ poly(degree=2, x=log(n / e))", "y n e", true),
        ("y | trials(n) ~ . - x + (1 | g)", "y n x g", false),
        ("factor(y) ~ I(x^2) + offset(log(n))", "y x n", true),
    ] {
        let expected: Vec<String> = columns.split(' ').map(String::from).collect();
        assert_eq!(Formula::parse(formula).unwrap().columns(), (expected, all), "{formula}");
    }
}
