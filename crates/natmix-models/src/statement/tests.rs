use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn value(text: &str, known: &[&str], draw: &[f64]) -> f64 {
    let statement = Statement::parse(text, &names(known)).unwrap();
    assert!(!statement.is_claim(), "{text}");
    statement.values(draw)[0]
}

#[test]
fn arithmetic_as_it_is_written() {
    let (known, draw) = (["a", "b", "c2"], [2.0, -3.0, 0.5]);
    let cases = [
        ("a", 2.0),
        ("a + b - c2", -1.5),
        ("a - b - c2", 4.5),
        ("a - (b - c2)", 5.5),
        ("a * b / c2", -12.0),
        ("a / b * c2", 2.0 / -3.0 * 0.5),
        ("-a^2", -4.0),
        ("(-a)^2", 4.0),
        ("2^-a", 0.25),
        ("a^2^c2", 2f64.powf(2f64.sqrt())),
        ("a**2*3", 12.0),
        ("2 * -b", 6.0),
        ("--a", 2.0),
        ("+a + +b", -1.0),
        ("exp(log(a) + 1)", 2.0 * std::f64::consts::E),
        ("sqrt( abs(b) ) ^ 2", 3.0),
        ("1e1*a + .5", 20.5),
        ("`a`+`b`", -1.0),
    ];
    for (text, expected) in cases {
        let found = value(text, &known, &draw);
        assert!((found - expected).abs() < 1e-12, "{text}: {found}");
    }
    let sum = vec!["a"; 3000].join("+");
    assert_eq!(value(&sum, &known, &draw), 6000.0);
}

#[test]
fn claims_hold_or_not() {
    let known = names(&["a", "b"]);
    let holds = |text: &str| Statement::parse(text, &known).unwrap().holds(&[1.0, 2.0]);
    for text in [
        "a > 0",
        "a<b",
        "a <= 1 and b >= 2",
        "0 < a < 2",
        "0 < a, a < b",
        "0 < a & b > a && b > 0",
        "(a > 0) and (b > 0)",
        "((a > 0, b > 0) and a < b)",
        "(a + b) * 2 > 5",
        "3 > b > a > 0",
    ] {
        assert_eq!(holds(text), Some(true), "{text}");
    }
    for text in ["a > 1", "a < 1", "0 < a < 1", "a > 0 and b < 0", "b < a, a > 0", "(a > 0) and (b < 0)", "a < b < 2"] {
        assert_eq!(holds(text), Some(false), "{text}");
    }
    assert_eq!(holds("log(a - 2) < 0 and b > 5"), None);
    let statement = Statement::parse("0 < a < b and b > 7", &known).unwrap();
    assert_eq!(statement.margins(&[1.0, 2.0]), [-1.0, -1.0, -5.0]);
    assert_eq!(statement.values(&[1.0, 2.0]), [0.0, 1.0, 2.0, 2.0, 7.0]);
}

#[test]
fn names_of_every_kind() {
    let known = [
        "(intercept)",
        "x1:x2",
        "sd(g, x)",
        "g[level, x]",
        "b[1]",
        "b[10]",
        "I(x^2)",
        "x",
        "poly(x, 2)1",
        "Blood Pressure",
    ];
    let draw: Vec<f64> = (0..known.len()).map(|i| i as f64).collect();
    for (i, name) in known.iter().enumerate() {
        for text in [(*name).to_owned(), format!("`{name}`"), name.replace(", ", ",")] {
            assert_eq!(value(&text, &known, &draw), i as f64, "{text}");
        }
    }
    assert_eq!(value("b[ 1 ] + b[10]*2", &known, &draw), 14.0);
    assert_eq!(value("exp((intercept))", &known, &draw), 1.0);
    // A name that could also be computed is refused without backquotes.
    let known = ["log(x)", "x", "a - x", "a"];
    let ambiguous = |text: &str| match Statement::parse(text, &names(&known)).unwrap_err().problem {
        StatementProblem::Ambiguous(name) => name,
        other => panic!("{other}"),
    };
    assert_eq!((ambiguous("log(x)"), ambiguous("2 * (a - x)")), ("log(x)".to_owned(), "a - x".to_owned()));
    let draw = [10.0, 1.0, 20.0, 3.0];
    assert_eq!(value("`log(x)`", &known, &draw), 10.0);
    assert_eq!(value("log(`x`)", &known, &draw), 0.0);
    assert_eq!((value("`a - x`", &known, &draw), value("`a` - x", &known, &draw)), (20.0, 2.0));
    // A parameter may be called like a function.
    assert_eq!(value("exp + exp(0)", &["exp"], &[5.0]), 6.0);
    assert_eq!(value("and_then + order", &["and_then", "order"], &[5.0, 1.0]), 6.0);
}

#[test]
fn problems_are_named_with_their_place() {
    let known = names(&["age", "weight", "sd(clinic)", "b[1]", "sd(g, (intercept))"]);
    let cases = [
        ("", "the statement is empty (write for example 'age > 0')\n  \n  ^"),
        ("agee > 0", "there is no parameter `agee`; did you mean `age`?\n  agee > 0\n  ^^^^"),
        ("sd(clnic) > 0", "there is no function or parameter `sd(clnic)`; did you mean `sd(clinic)`?"),
        (
            "sd(g, (intercpt)) > 0",
            "there is no function or parameter `sd(g, (intercpt))`; did you mean `sd(g, (intercept))`?",
        ),
        ("b[2] > 0", "there is no parameter `b[2]`; did you mean `b[1]`?"),
        ("`wieght` > 0", "there is no parameter `wieght`; did you mean `weight`?"),
        ("sin(age)", "there is no function or parameter `sin(age)`"),
        ("age > ", "the statement ends where a parameter, a number or a function is expected"),
        ("age >", "the statement ends"),
        ("> 0", "a parameter, a number or a function is expected here\n  > 0\n  ^"),
        ("age = 0", "single values of a continuous parameter"),
        ("age == 0", "single values of a continuous parameter"),
        ("age != 0", "single values of a continuous parameter"),
        ("age > 0 or weight > 0", "only `and` joins comparisons"),
        ("age > 0 | weight > 0", "only `and` joins comparisons"),
        ("not age > 0", "only `and` joins comparisons"),
        ("age > 0 and weight", "this part is not true or false"),
        ("age, weight > 0", "this part is not true or false"),
        ("age > 0 and", "the statement ends"),
        ("age weight", "an operator, a comparison or `and` is missing before this\n  age weight\n      ^^^^^^"),
        ("2 age > 0", "an operator"),
        ("(age > 0", "this parenthesis is not closed\n  (age > 0\n  ^"),
        ("exp(age", "this parenthesis is not closed"),
        ("(age + 1 > 0", "this parenthesis is not closed"),
        ("age) > 0", "this parenthesis was never opened"),
        ("age $ 2", "`$` has no meaning in a statement"),
        ("`age > 0", "the closing ` is missing"),
        ("``", "there is no name between these backquotes"),
        ("1e999 > age", "1e999 is not a finite number"),
        ("age * / 2", "a parameter, a number or a function is expected here"),
    ];
    for (text, start) in cases {
        let problem = Statement::parse(text, &known).unwrap_err().to_string();
        assert!(problem.starts_with(start), "{text}: {problem}");
    }
    let deep = "(".repeat(1000) + "age" + &")".repeat(1000);
    assert!(matches!(Statement::parse(&deep, &known).unwrap_err().problem, StatementProblem::TooDeep { .. }));
    let claims = "(".repeat(1000) + "age > 0" + &")".repeat(1000);
    assert!(matches!(Statement::parse(&claims, &known).unwrap_err().problem, StatementProblem::TooDeep { .. }));
    assert!(matches!(
        Statement::parse(&"1+".repeat(20_000), &known).unwrap_err().problem,
        StatementProblem::TooLong { .. }
    ));
}

#[test]
fn no_text_panics() {
    let known = names(&["a", "größe", "sd(g, x)", "x[1]", "年齢"]);
    let parts = [
        "a", "größe", "sd(", "g", ",", ")", "x[1]", "年", "<", "and", "1.5", "`", "(", "é", " ", "-", "^", "=", "log",
        "\u{0}",
    ];
    let mut bits = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..1 + bits % 9 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += parts[(bits >> 33) as usize % parts.len()];
        }
        if let Ok(statement) = Statement::parse(&text, &known) {
            statement.holds(&[1.0; 5]);
        } else {
            assert!(!Statement::parse(&text, &known).unwrap_err().to_string().is_empty());
        }
    }
}
