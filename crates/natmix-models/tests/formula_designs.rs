//! What a design holds besides its fixed columns: groups, smooths, outcomes, offsets, what was left out; and new rows.

use natmix_models::error::DataError;
use natmix_models::formula::{
    Formula, FormulaDesign, FormulaEncoding, FormulaError, FormulaOptions, GroupCoefficients, GroupingKind,
};
use natmix_models::table::Table;

fn named(names: &[&str], values: &[f64], levels: &[(usize, &[&str])]) -> Table {
    let names = names.iter().map(|name| name.to_string()).collect();
    let mut table = Table::from_values("rows.csv", names, values.to_vec()).unwrap();
    for (at, levels) in levels {
        table.levels.insert(*at, levels.iter().map(|level| level.to_string()).collect());
    }
    table
}

/// y, x, school (text), class (numbers within a school), n.
fn schools() -> Table {
    let values = [
        [1.0, 0.5, 0.0, 1.0, 3.0],
        [0.0, 1.5, 1.0, 1.0, 2.0],
        [2.0, -1.0, 2.0, 2.0, 4.0],
        [1.0, 2.0, 0.0, 2.0, 5.0],
        [1.0, 3.5, 1.0, 10.0, 1.0],
        [0.0, -2.5, 0.0, 1.0, 9.0],
    ];
    named(&["y", "x", "school", "class", "n"], &values.concat(), &[(2, &["north", "south", "west"])])
}

fn design(formula: &str, table: &Table) -> FormulaDesign {
    FormulaDesign::new(&Formula::parse(formula).unwrap(), table, &FormulaOptions::default()).unwrap()
}

fn error(formula: &str, table: &Table, options: &FormulaOptions) -> String {
    FormulaDesign::new(&Formula::parse(formula).unwrap(), table, options).unwrap_err().to_string()
}

#[test]
fn varying_effects_become_groups_and_columns() {
    let design = design("y ~ x + (1 + x | school)", &schools());
    assert_eq!(design.names, ["(intercept)", "x"]);
    let [group] = &design.groupings[..] else { panic!("{:?}", design.groupings) };
    assert_eq!((group.name.as_str(), group.coefficients), ("school", GroupCoefficients::Correlated));
    assert_eq!(group.levels, ["north", "south", "west"]);
    assert_eq!(group.level_of_row, [0, 1, 2, 0, 1, 0]);
    assert_eq!(group.columns, ["(intercept)", "x"]);
    assert_eq!(group.z, [1.0, 0.5, 1.0, 1.5, 1.0, -1.0, 1.0, 2.0, 1.0, 3.5, 1.0, -2.5]);
    // Fixed slopes and varying ones share their column, with its mean and standard deviation.
    let about = &design.encoding.groupings[0].columns[1];
    assert_eq!(about, &design.encoding.columns[1]);
    assert!((about.mean - 4.0 / 6.0).abs() < 1e-15 && about.sd > 0.0);
}

#[test]
fn groups_are_nested_and_crossed() {
    let table = schools();
    let groups = |formula: &str| -> Vec<(String, Vec<String>, Vec<String>, GroupCoefficients)> {
        let groupings = design(formula, &table).groupings;
        groupings.into_iter().map(|g| (g.name, g.levels, g.columns, g.coefficients)).collect()
    };
    let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    let nested = groups("y ~ 1 + (1 | school/class)");
    assert_eq!(nested[0].1, ["north", "south", "west"]);
    // Numbers are sorted by size, not as text.
    assert_eq!(
        (nested[1].0.as_str(), &nested[1].1),
        ("school:class", &strings(&["north:1", "north:2", "south:1", "south:10", "west:2"]))
    );
    assert_eq!(groups("y ~ (1 | school) + (1 | school:class)"), nested);
    let crossed = groups("y ~ (1 | school) + (0 + x || class)");
    assert_eq!((crossed[1].1.clone(), crossed[1].2.clone()), (strings(&["1", "2", "10"]), strings(&["x"])));
    assert_eq!(crossed[1].3, GroupCoefficients::Independent);
    assert_eq!(design("y ~ (1 | school:class)", &table).groupings[0].level_of_row, [0, 2, 4, 1, 3, 0]);
    // Categories that vary are coded as they are among fixed terms.
    assert_eq!(groups("y ~ (school | class)")[0].2, ["(intercept)", "school=south", "school=west"]);
    assert_eq!(groups("y ~ (0 + school | class)")[0].2, ["school=north", "school=south", "school=west"]);
    assert_eq!(groups("y ~ (poly(x, 2) | class)")[0].2, ["(intercept)", "poly(x, 2)[1]", "poly(x, 2)[2]"]);
}

#[test]
fn a_smooth_is_a_line_and_coefficients_that_share_a_standard_deviation() {
    let values: Vec<f64> = (0..40).flat_map(|i| [(i % 7) as f64, (i as f64 * 0.7).sin() + 2.0]).collect();
    let table = named(&["y", "x"], &values, &[]);
    let design = design("y ~ s(x, k=7)", &table);
    assert_eq!(design.names, ["(intercept)", "x"]);
    let [smooth] = &design.groupings[..] else { panic!("{:?}", design.groupings) };
    assert_eq!((smooth.name.as_str(), smooth.columns.len()), ("s(x, k=7)", 5));
    assert_eq!(
        (smooth.coefficients, smooth.levels.len(), &smooth.level_of_row),
        (GroupCoefficients::Shared, 1, &vec![0; 40])
    );
    assert_eq!(smooth.columns[4], "s(x, k=7)[5]");
    for j in 0..5 {
        let with = |f: &dyn Fn(usize) -> f64| (0..40).map(|row| f(row) * smooth.z[row * 5 + j]).sum::<f64>();
        assert!(with(&|_| 1.0).abs() < 1e-10 && with(&|row| design.x[2 * row + 1]).abs() < 1e-10);
    }
    // New rows, also outside the range, get the same functions.
    let stored: FormulaEncoding = serde_json::from_str(&serde_json::to_string(&design.encoding).unwrap()).unwrap();
    assert_eq!(stored.encode(&table).unwrap().groupings[0].z, smooth.z);
    let outside = stored.encode(&named(&["x"], &[-5.0, 9.0], &[])).unwrap();
    assert!(outside.groupings[0].z.iter().all(|value| value.is_finite()) && outside.outcome.is_none());
    let refused = self::design("y ~ bs(x, df=5)", &table).encoding.encode(&named(&["x"], &[-5.0], &[])).unwrap_err();
    assert!(refused.to_string().contains("row 1, column `bs(x, df=5)`: -5 is outside the range from 1.0"), "{refused}");
}

#[test]
fn outcomes_offsets_and_weights() {
    let table = schools();
    let trials = design("y | trials(n) ~ x + offset(log(n)) + offset(x)", &table);
    assert_eq!(trials.outcome, [1.0, 0.0, 2.0, 1.0, 1.0, 0.0]);
    assert_eq!(trials.trials.as_deref(), Some(&[3.0, 2.0, 4.0, 5.0, 1.0, 9.0][..]));
    let offset = trials.offset.unwrap();
    assert!((offset[1] - (2f64.ln() + 1.5)).abs() < 1e-15);
    assert_eq!(design("y | trials(9) ~ x", &table).trials, Some(vec![9.0; 6]));
    let classes = design("school ~ x", &table);
    assert_eq!(classes.outcome, [0.0, 1.0, 2.0, 0.0, 1.0, 0.0]);
    assert_eq!(design("factor(class) ~ x", &table).outcome, [0.0, 0.0, 1.0, 1.0, 2.0, 0.0]);
    assert_eq!(design("log(n) ~ x", &table).outcome[0], 3f64.ln());
    assert!(design("~ x", &table).outcome.is_empty());
    let options = FormulaOptions { weights: Some("n".into()), ..FormulaOptions::default() };
    let weighted = FormulaDesign::new(&Formula::parse("y ~ .").unwrap(), &table, &options).unwrap();
    assert_eq!(weighted.weights.as_deref(), Some(&[3.0, 2.0, 4.0, 5.0, 1.0, 9.0][..]));
    assert!(!weighted.names.contains(&"n".to_string()));
    let censored = named(&["t", "seen", "x"], &[1.0, 1.0, 0.3, 2.0, 0.0, 0.4, 3.0, 1.0, -1.0], &[]);
    assert_eq!(design("t | event(seen) ~ .", &censored).event, Some(vec![true, false, true]));
    assert_eq!(design("t | event(seen) ~ .", &censored).names, ["(intercept)", "x"]);
    for (weights, expected) in [("w", "no column `w`, asked for as the weights"), ("x", "column `x`: -1 is negative")] {
        let options = FormulaOptions { weights: Some(weights.into()), ..FormulaOptions::default() };
        let message = error("y ~ class", &table, &options);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn reference_levels_can_be_chosen() {
    let table = schools();
    let with = |references: &[(&str, &str)]| FormulaOptions {
        references: references.iter().map(|(column, level)| (column.to_string(), level.to_string())).collect(),
        ..FormulaOptions::default()
    };
    let formula = Formula::parse("y ~ school").unwrap();
    let first = FormulaDesign::new(&formula, &table, &with(&[])).unwrap();
    assert_eq!(first.encoding.references().into_iter().collect::<Vec<_>>(), [("school", "north")]);
    let chosen = FormulaDesign::new(&formula, &table, &with(&[("school", "west")])).unwrap();
    assert_eq!(chosen.names, ["(intercept)", "school=north", "school=south"]);
    assert_eq!(chosen.encoding.references().into_iter().collect::<Vec<_>>(), [("school", "west")]);
    assert_eq!(design("y ~ C(school, ref=\"west\")", &table).names, chosen.names);
    assert_eq!(design("y ~ factor(class, ref=10)", &table).names, ["(intercept)", "class=1", "class=2"]);
    let message = error("y ~ school", &table, &with(&[("school", "east")]));
    assert!(message.contains("no level `east` to be the reference (its levels are `north`"), "{message}");
    let message = error("y ~ x", &table, &with(&[("school", "west")]));
    assert!(message.contains("column `school` was given a reference level, but is not a category"), "{message}");
}

#[test]
fn new_rows_may_have_new_groups_but_no_new_levels() {
    let encoding = design("y ~ x * school + (1 | class) + (1 | school:class)", &schools()).encoding;
    let encoding: FormulaEncoding = serde_json::from_str(&serde_json::to_string(&encoding).unwrap()).unwrap();
    // Columns and levels in another order, one more column, no outcome.
    let new = named(
        &["class", "school", "extra", "x"],
        &[10.0, 1.0, 0.0, 7.0, 2.0, 0.0, 0.0, 8.0, 3.0, 0.0, 0.0, 9.0],
        &[(1, &["west", "north"])],
    );
    let rows = encoding.encode(&new).unwrap();
    assert_eq!(rows.groupings[0].index, [Some(2), Some(1), None]);
    assert_eq!(rows.groupings[1].index, [None, Some(4), None]);
    assert_eq!((rows.outcome, rows.ignored), (None, vec!["extra".to_string()]));
    assert_eq!(rows.x[6..12], [1.0, 8.0, 0.0, 1.0, 0.0, 8.0]);

    let message = |table: &Table| encoding.encode(table).unwrap_err().to_string();
    let mut other = new.clone();
    other.levels.insert(1, vec!["east".into(), "north".into()]);
    assert!(
        message(&other).contains(
            "row 2, column `school`: the level `east` did not occur when the model was fitted (known: `north`"
        ),
        "{}",
        message(&other)
    );
    let missing = named(&["x", "class"], &[1.0, 2.0], &[]);
    assert!(
        message(&missing).contains("column `school` is missing; the model was fitted with it as a part of its formula")
    );
    let mut text = new.clone();
    text.levels.insert(3, ["0", "1"].map(String::from).to_vec());
    assert!(message(&text).contains("column `x` is categorical here, but the formula calculates with its numbers"));
}

#[test]
fn a_file_of_new_rows_is_read_with_the_columns_that_are_needed() {
    let folder = std::env::temp_dir().join(format!("natmix-formula-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("new.csv");
    std::fs::write(&path, "note,school,x,class\nany text,south,1,10\n,north,2,7\n").unwrap();
    let rows = design("y ~ x + school + (1 | class)", &schools()).encoding.read(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(rows.x, [1.0, 1.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
    assert_eq!(rows.groupings[0].index, [Some(2), None]);
    assert_eq!(rows.ignored, ["note"]);
}

#[test]
fn columns_that_say_nothing_are_left_out_and_combinations_noticed() {
    let values: Vec<f64> = (0..12)
        .flat_map(|i| {
            let x = (i as f64 * 1.9).sin();
            let (a, b) = (i % 2, if i % 2 == 0 { i / 2 % 2 } else { 0 });
            [x * 2.0, x, 3.0, 0.0, 2.0 * x - 1.0, f64::from(a), f64::from(b)]
        })
        .collect();
    let table = named(&["y", "x", "three", "zero", "double", "a", "b"], &values, &[(5, &["p", "q"]), (6, &["r", "s"])]);
    let with = design("y ~ x + three + a:b + double", &table);
    // No row has a = q and b = s.
    assert_eq!(with.names, ["(intercept)", "x", "double", "b=s", "a=q:b=r"]);
    let dropped: Vec<(&str, &str)> = with.dropped.iter().map(|d| (d.name.as_str(), d.reason.as_str())).collect();
    assert_eq!(dropped, [("three", "is always 3"), ("a=q:b=s", "is always 0")]);
    assert_eq!(with.x.len(), 12 * 5);
    assert_eq!(
        with.warnings,
        ["`double` is a combination of other columns (`x`): only the prior tells their coefficients apart"]
    );
    let without = design("y ~ 0 + x + three + zero", &table);
    assert_eq!((without.names, without.dropped.len()), (vec!["x".to_string(), "three".into()], 1));
    let nothing = error("y ~ 0 + zero", &table, &FormulaOptions::default());
    assert!(nothing.contains("nothing is left to explain the outcome"), "{nothing}");
    let one = design("y ~ x + (1 | three)", &table);
    assert_eq!(one.warnings, ["`three` has only one group, `3`: nothing can vary over it"]);
}

#[test]
fn columns_are_scaled_as_without_a_formula() {
    let table = schools();
    let scales = |formula: &str| -> Vec<(f64, f64)> {
        let encoding = design(formula, &table).encoding;
        (0..encoding.dim()).map(|j| encoding.centre_and_scale(j)).collect()
    };
    let with = scales("y ~ x + school + x:school");
    assert_eq!((with[0], with[2], with[3]), ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)));
    let (mean, sd) = with[1];
    let options = natmix_models::DesignOptions { outcome: Some("y".into()), ..Default::default() };
    let plain = natmix_models::Design::new(schools(), &options).unwrap();
    assert_eq!(plain.encoding.features[0].coding, natmix_models::design::Coding::Number { centre: mean, scale: sd });
    assert!(with[4].1 != 1.0 && with[4].0 != 0.0);
    assert_eq!(scales("y ~ 0 + x")[0], (0.0, sd));
}

#[test]
fn a_damaged_encoding_is_refused() {
    let good = design("y ~ poly(x, 2) + school + bs(x) + (1 | class)", &schools()).encoding;
    good.check().unwrap();
    let damage: [fn(&mut FormulaEncoding); 7] = [
        |e| e.columns[1].parts[0].factor = 99,
        |e| e.columns[1].parts[0].part = 99,
        |e| e.columns[1].sd = f64::NAN,
        |e| (e.columns, e.groupings) = (vec![], vec![]),
        |e| (e.intercept, e.columns[0].parts) = (true, e.columns[1].parts.clone()),
        |e| {
            if let GroupingKind::Groups { levels, .. } = &mut e.groupings[0].kind {
                levels[0].clear();
            }
        },
        |e| {
            if let natmix_models::formula::FactorKind::Levels { levels, .. } = &mut e.factors[1].kind {
                levels[0] = levels[1].clone();
            }
        },
    ];
    for damage in damage {
        let mut bad = good.clone();
        damage(&mut bad);
        let error = bad.encode(&schools()).unwrap_err();
        assert!(matches!(error, DataError::BadEncoding { .. }), "{error}");
    }
}

#[test]
fn tables_that_cannot_be_used_are_errors() {
    let one = named(&["y", "x"], &[1.0, 2.0], &[]);
    assert!(error("y ~ x", &one, &FormulaOptions::default()).contains("at least two rows"));
    let huge = named(&["y", "x"], &[1.0, 1e200, 2.0, -1e200], &[]);
    assert!(error("y ~ x", &huge, &FormulaOptions::default()).contains("column `x` has values too large to be scaled"));
    assert!(error("y ~ poly(x, 3, raw=TRUE)", &huge, &FormulaOptions::default()).contains("too far away"));
    let levels: Vec<String> = (0..300).map(|i| format!("l{i}")).collect();
    let mut many = named(&["y", "a", "b"], &(0..900).map(|i| (i % 300) as f64).collect::<Vec<_>>(), &[]);
    many.levels.insert(1, levels.clone());
    many.levels.insert(2, levels);
    let message = error("y ~ a * b", &many, &FormulaOptions::default());
    assert!(
        message.contains("coefficients, more than 20000 (is a column with many levels an identifier?"),
        "{message}"
    );
    let wrong = FormulaDesign::new(&Formula::parse("y ~ q").unwrap(), &one, &FormulaOptions::default());
    assert!(matches!(wrong, Err(FormulaError::Data(_))));
}
