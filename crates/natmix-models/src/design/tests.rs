use super::*;

fn table(names: &[&str], values: &[f64]) -> Table {
    Table::from_values("a.csv", names.iter().map(|name| name.to_string()).collect(), values.to_vec()).unwrap()
}

fn with_levels(mut table: Table, column: usize, levels: &[&str]) -> Table {
    table.levels.insert(column, levels.iter().map(|level| level.to_string()).collect());
    table
}

fn options(outcome: &str) -> DesignOptions {
    DesignOptions { outcome: Some(outcome.into()), ..DesignOptions::default() }
}

fn message<T: std::fmt::Debug>(result: Result<T, DataError>) -> String {
    result.unwrap_err().to_string()
}

/// Four rows of a, c, y, b, as for y = 1 + 2 a - b + 3 [c = v].
fn mixed() -> Table {
    let values = [1.0, 0.0, 5.0, 10.0, 2.0, 1.0, 6.0, 40.0, 4.0, 2.0, 9.0, 20.0, 5.0, 1.0, 1.0, 10.0];
    with_levels(table(&["a", "c", "y", "b"], &values), 1, &["u", "v", "w"])
}

#[test]
fn raw_columns_stay_as_they_are() {
    let raw = DesignOptions { standardize: false, intercept: false, ..options("y") };
    let design = Design::new(table(&["a", "y", "b"], &[1.0, 0.0, 2.0, 3.0, 1.0, 4.0]), &raw).unwrap();
    assert_eq!((design.names, design.x), (vec!["a".to_string(), "b".to_string()], vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!((design.outcome, design.encoding.outcome.unwrap().scale), (vec![0.0, 1.0], 1.0));
}

#[test]
fn levels_become_columns() {
    let raw = DesignOptions { standardize: false, ..options("y") };
    let design = Design::new(mixed(), &raw).unwrap();
    assert_eq!(design.names, ["(intercept)", "a", "c=v", "c=w", "b"]);
    let rows = [1., 1., 0., 0., 10., 1., 2., 1., 0., 40., 1., 4., 0., 1., 20., 1., 5., 1., 0., 10.];
    assert_eq!(design.x, rows);
    let all = Design::new(mixed(), &DesignOptions { intercept: false, ..raw }).unwrap();
    assert_eq!(all.names, ["a", "c=u", "c=v", "c=w", "b"]);
    assert_eq!(all.x[..10], [1., 1., 0., 0., 10., 2., 0., 1., 0., 40.]);
}

#[test]
fn the_linear_predictor_is_the_same_on_both_scales() {
    for intercept in [true, false] {
        for standardize_outcome in [true, false] {
            let options = DesignOptions { intercept, standardize_outcome, ..options("y") };
            let design = Design::new(mixed(), &options).unwrap();
            let raw =
                Design::new(mixed(), &DesignOptions { standardize: false, standardize_outcome: false, ..options })
                    .unwrap();
            assert_eq!(design.names, raw.names);
            let fitted: Vec<f64> = (0..design.dim).map(|j| 0.3 * j as f64 - 0.5).collect();
            let mut user = vec![0.0; design.dim];
            design.encoding.to_user_scale(&fitted, &mut user);
            let about = design.encoding.outcome.as_ref().unwrap();
            for row in 0..design.rows {
                let predictor = |x: &[f64], z: &[f64]| -> f64 {
                    x[row * z.len()..(row + 1) * z.len()].iter().zip(z).map(|(x, z)| x * z).sum()
                };
                let expected = about.centre + about.scale * predictor(&design.x, &fitted);
                assert!((predictor(&raw.x, &user) - expected).abs() < 1e-12);
                assert!((about.centre + about.scale * design.outcome[row] - raw.outcome[row]).abs() < 1e-14);
            }
            let mut back = vec![0.0; design.dim];
            design.encoding.to_fitted_scale(&user, &mut back);
            assert!(back.iter().zip(&fitted).all(|(a, b)| (a - b).abs() < 1e-13), "{back:?} {fitted:?}");
        }
    }
}

#[test]
fn several_classes_are_mapped_block_by_block() {
    let encoding = Design::new(mixed(), &options("y")).unwrap().encoding;
    let (one, two) = ([1.0, 2.0, 3.0, 4.0, 5.0], [-1.0, 0.5, 2.0, 0.0, 1.0]);
    let mut both = [0.0; 10];
    encoding.to_user_scale(&[one, two].concat(), &mut both);
    let mut alone = [0.0; 5];
    encoding.to_user_scale(&two, &mut alone);
    assert_eq!(both[5..], alone);
}

#[test]
fn offset_exposure_and_weights() {
    let values = [1.0, 2.0, 1.0, 0.5, 3.0, 2.0, 4.0, std::f64::consts::E, 1.5, 0.0];
    let names = ["x", "n", "t", "o", "w"];
    let roles = DesignOptions {
        offset: Some("o".into()),
        exposure: Some("t".into()),
        weights: Some("w".into()),
        ..options("n")
    };
    let design = Design::new(table(&names, &values), &roles).unwrap();
    assert_eq!((design.names, design.weights), (vec!["(intercept)".to_string(), "x".into()], Some(vec![3.0, 0.0])));
    assert_eq!(design.offset, Some(vec![0.5, 2.5]));

    let bad = |at: usize, value: f64| {
        let mut values = values;
        values[at] = value;
        message(Design::new(table(&names, &values), &roles))
    };
    assert!(bad(7, 0.0).contains("row 2, column `t`: 0 is not positive"), "{}", bad(7, 0.0));
    assert!(bad(9, -1.0).contains("row 2, column `w`: -1 is negative"), "{}", bad(9, -1.0));
    assert!(bad(4, 0.0).contains("column `w` has no positive value"), "{}", bad(4, 0.0));
    let twice = DesignOptions { offset: Some("n".into()), ..options("n") };
    let text = message(Design::new(table(&names, &values), &twice));
    assert!(text.contains("cannot be both the outcome and the offset"), "{text}");
    // The offset of a linear model keeps its meaning when the outcome is scaled.
    let linear = DesignOptions { offset: Some("o".into()), standardize_outcome: true, ..options("n") };
    let design = Design::new(table(&names, &values), &linear).unwrap();
    let scale = design.encoding.outcome.unwrap().scale;
    assert_eq!(design.offset, Some(vec![0.5 / scale, 1.5 / scale]));
}

#[test]
fn tables_that_cannot_be_encoded_are_errors() {
    let text = message(Design::new(table(&["x", "y"], &[1.0, 0.0]), &options("y")));
    assert!(text.contains("only one row") && text.contains("--no-standardize"), "{text}");
    let text = message(Design::new(mixed(), &options("z")));
    assert!(text.contains("no column `z`, asked for as the outcome (the columns are `a`, `c`, `y`, `b`)"), "{text}");
    let alone = DesignOptions { intercept: false, ..options("y") };
    let text = message(Design::new(table(&["y"], &[1.0, 2.0]), &alone));
    assert!(text.contains("no column is left"), "{text}");
    let text = message(Design::new(table(&["x", "y"], &[1e200, 1.0, -1e200, 2.0]), &options("y")));
    assert!(text.contains("column `x` has values too large"), "{text}");
    let text = message(Design::new(with_levels(mixed(), 2, &["p", "q"]), &options("y")));
    assert!(text.contains("column `y`: 5 is not the index"), "{text}");
    let text = message(Design::new(table(&["(intercept)", "y"], &[1.0, 0.0, 2.0, 1.0]), &options("y")));
    assert!(text.contains("two coefficients would be named `(intercept)`"), "{text}");
    let none = Design::new(table(&["x", "y"], &[1.0, 0.0, 2.0, 1.0]), &DesignOptions::default()).unwrap();
    assert!(message(none.check_outcome(OutcomeKind::Linear)).contains("--outcome"));
}

#[test]
fn constant_features_are_kept_and_reported() {
    let design =
        Design::new(table(&["x", "k", "y"], &[1.0, 0.1, 0.0, 2.0, 0.1, 1.0, 4.0, 0.1, 1.0]), &options("y")).unwrap();
    assert_eq!(design.warnings, ["column `k` is always 0.1: it explains nothing, and is not scaled"]);
    assert_eq!([design.x[2], design.x[5], design.x[8]], [0.0; 3]);
    let one_level = with_levels(table(&["c", "y"], &[0.0, 0.0, 0.0, 1.0]), 0, &["only"]);
    let design = Design::new(one_level, &options("y")).unwrap();
    assert_eq!((design.names.len(), design.warnings.len(), design.x), (1, 1, vec![1.0, 1.0]));
}

#[test]
fn new_rows_are_matched_by_name() {
    let design = Design::new(mixed(), &options("y")).unwrap();
    let encoding: Encoding = serde_json::from_str(&serde_json::to_string(&design.encoding).unwrap()).unwrap();
    assert_eq!(encoding, design.encoding);
    // The same rows with the columns and levels in another order, one more column and no outcome.
    let (mut values, old) = (Vec::new(), mixed().values);
    for row in old.chunks_exact(4) {
        values.extend([row[3], 7.0, [2.0, 0.0, 1.0][row[1] as usize], row[0]]);
    }
    let other = with_levels(table(&["b", "extra", "c", "a"], &values), 2, &["v", "w", "u"]);
    let rows = encoding.encode(other.clone()).unwrap();
    assert_eq!((&rows.x, &rows.outcome, &rows.ignored), (&design.x, &None, &vec!["extra".to_string()]));
    assert!(message(rows.refuse_extra_columns()).contains("not fitted with `extra`"));
    assert_eq!(encoding.encode(mixed()).unwrap().outcome.unwrap(), design.outcome);

    let text = message(encoding.encode(table(&["a", "b"], &[1.0, 2.0])));
    assert!(text.contains("column `c` is missing"), "{text}");
    let text = message(encoding.encode(with_levels(other.clone(), 2, &["v", "z", "u"])));
    assert!(
        text.contains("row 3, column `c`: the level `z` did not occur") && text.contains("`u`, `v`, `w`"),
        "{text}"
    );
    let mut all_numbers = other.clone();
    all_numbers.levels.clear();
    let text = message(encoding.encode(all_numbers));
    assert!(text.contains("column `c` holds numbers here"), "{text}");
    let text = message(encoding.encode(with_levels(other, 0, &["x"; 41])));
    assert!(text.contains("column `b` is categorical here"), "{text}");
}

#[test]
fn a_damaged_encoding_is_refused() {
    let good = Design::new(mixed(), &options("y")).unwrap().encoding;
    good.check().unwrap();
    let damage: [fn(&mut Encoding); 7] = [
        |e| e.features[0].coding = Coding::Number { centre: 0.0, scale: 0.0 },
        |e| e.features[0].coding = Coding::Number { centre: f64::NAN, scale: 1.0 },
        |e| e.features[1].coding = Coding::Levels { levels: vec!["u".into(), "u".into()], first_dropped: true },
        |e| e.features[1].coding = Coding::Levels { levels: vec![], first_dropped: true },
        |e| e.features[2].column = "a".into(),
        |e| e.outcome.as_mut().unwrap().scale = -1.0,
        |e| (e.intercept, e.features) = (false, vec![]),
    ];
    for damage in damage {
        let mut bad = good.clone();
        damage(&mut bad);
        assert!(message(bad.encode(mixed())).contains("damaged"));
    }
}

#[test]
fn outcomes_are_checked_by_kind() {
    let about = |levels: Option<&[&str]>| OutcomeColumn {
        column: "y".into(),
        levels: levels.map(|levels| levels.iter().map(|level| level.to_string()).collect()),
        centre: 0.0,
        scale: 1.0,
    };
    let numbers = |kind, values: &[f64]| check_outcome(kind, values, &about(None), &Origin::label("a.csv"));
    use OutcomeKind::*;
    assert_eq!(numbers(Logistic, &[0.0, 1.0]).unwrap(), 2);
    assert_eq!(numbers(Linear, &[0.5, -1.0]).unwrap(), 1);
    assert_eq!(numbers(Poisson, &[0.0, 7.0]).unwrap(), 1);
    assert_eq!(numbers(Poisson, &[7.0]).unwrap(), 1);
    assert_eq!(numbers(Softmax, &[0.0, 2.0, 1.0]).unwrap(), 3);
    assert!(message(numbers(Logistic, &[1.0, 2.0])).contains("row 2, column `y`: 2 is neither 0 nor 1"));
    assert!(message(numbers(Logistic, &[1.0, 2.0])).contains("--categorical y"));
    assert!(message(numbers(Poisson, &[1.0, 1.5])).contains("1.5 is not a count"));
    assert!(message(numbers(Poisson, &[1.0, -2.0])).contains("-2 is not a count"));
    assert!(message(numbers(Softmax, &[1.0, 2.0])).contains("none is 0"));
    assert!(message(numbers(Softmax, &[1.0, 1e9])).contains("not a class number"));
    for kind in [Logistic, Linear, Poisson, Softmax] {
        assert!(message(numbers(kind, &[3.0, 3.0])).contains("is always 3"));
        assert!(message(numbers(kind, &[])).contains("no values"));
        assert!(message(numbers(kind, &[1.0, f64::NAN])).contains("not finite"));
    }
    let levels = |kind, names: &[&str], values: &[f64]| {
        check_outcome(kind, values, &about(Some(names)), &Origin::label("a.csv"))
    };
    assert_eq!(levels(Logistic, &["no", "yes"], &[0.0, 1.0]).unwrap(), 2);
    assert_eq!(levels(Softmax, &["a", "b", "c"], &[0.0, 1.0, 2.0]).unwrap(), 3);
    assert!(message(levels(Logistic, &["a", "b", "c"], &[0.0, 1.0])).contains("try softmax"));
    assert!(message(levels(Poisson, &["a", "b"], &[0.0, 1.0])).contains("needs numbers"));
    assert!(message(levels(Logistic, &["a", "b"], &[1.0, 1.0])).contains("is always `b`"));
}
