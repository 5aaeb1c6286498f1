//! Regressions with varying effects, further families and priors by name: fits, predictions, priors, and what is refused.

mod common;

use common::{CommandFolder, TableNoise};
use std::fmt::Write;

/// Twelve groups, a number, and an outcome for every family.
fn table(rows: usize) -> String {
    let mut noise = TableNoise(11);
    let effects: Vec<f64> = (0..12).map(|_| 0.6 * noise.normal()).collect();
    let mut text = String::from("x,g,yes,n,k,count,over,real,odd,rating,stars,amount,time,seen\n");
    for row in 0..rows {
        let group = row % 12;
        let x = noise.normal();
        let eta = 0.3 + 0.5 * x + effects[group];
        let p = 1.0 / (1.0 + (-eta).exp());
        let yes = u8::from(noise.uniform() < p);
        let n = 3 + (8.0 * noise.uniform()) as u32;
        let k = (0..n).filter(|_| noise.uniform() < p).count();
        let mut poisson = |mean: f64| {
            let (mut count, mut left) = (0, mean);
            while left > 0.0 && count < 1000 {
                left += noise.uniform().ln();
                count += u32::from(left > 0.0);
            }
            count
        };
        let count = poisson(eta.exp());
        let over = poisson(eta.exp() * if row % 3 == 0 { 2.5 } else { 0.3 });
        let (real, odd) = (eta + 0.5 * noise.normal(), eta + 0.3 * noise.normal() / noise.uniform().sqrt());
        let uniform = noise.uniform();
        let latent = eta + (uniform / (1.0 - uniform)).ln();
        let rating = ["low", "medium", "high"][usize::from(latent > 0.0) + usize::from(latent > 1.2)];
        let stars = 1 + u8::from(latent > -1.0) + u8::from(latent > 0.0) + u8::from(latent > 1.2);
        let amount = eta.exp() * -(noise.uniform() * noise.uniform()).ln() / 2.0;
        let (event, censored) = (eta.exp() * (-noise.uniform().ln()).powf(0.7), -4.0 * noise.uniform().ln());
        let (time, seen) = (event.min(censored), u8::from(event <= censored));
        writeln!(
            text,
            "{x},g{group},{yes},{n},{k},{count},{over},{real},{odd},{rating},{stars},{amount},{time},{seen}"
        )
        .unwrap();
    }
    text
}

fn header(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Every family is fitted, trusted, predicts old and new groups, gives draws, and repeats its bits from `config.toml`.
#[test]
fn every_family_is_fitted_and_predicts() {
    let folder = CommandFolder::new("effects-families");
    folder.write("table.csv", table(180));
    folder.write("new.csv", "x,g,n\n0.5,g3,4\n-1,somewhere else,4\n");
    let real = "mean,sd,q05,q50,q95";
    let cases = [
        ("logistic", "yes~x+(1|g)", "", "probability,sd,entropy,class"),
        ("binomial", "k|trials(n)~x+(1|g)", "", real),
        ("poisson", "count~x+(1|g)", "", real),
        ("negative-binomial", "over~x+(1|g)", "", real),
        ("linear", "real~x+(1+x|g)", "", real),
        ("linear", "real~s(x)", "", real),
        ("robust", "odd~x+(1|g)", "", real),
        ("ordinal", "rating~x+(1|g)", "--levels low,medium,high", "p[low],p[medium],p[high],entropy,class"),
        ("ordinal", "stars~x", "", "p[1],p[2],p[3],p[4],entropy,class"),
        ("gamma", "amount~x+(1|g)", "", real),
        ("survival", "time|event(seen)~x+(1|g)", "--prior shape~lognormal(0,0.5)", real),
    ];
    for (i, (model, formula, options, columns)) in cases.iter().enumerate() {
        let fit = format!("fit {model} --data table.csv --test table.csv --formula {formula} {options} --out fit{i}");
        let text = folder.expect(&[0], &fit).out;
        assert!(text.contains("you can use them"), "{model}: {text}");
        let predicted = folder.expect(&[0], &format!("predict --posterior fit{i} --data new.csv")).out;
        assert_eq!((header(&predicted), predicted.lines().count()), (*columns, 3), "{model}");
        for line in predicted.lines().skip(1) {
            let mut fields: Vec<&str> = line.split(',').collect();
            if columns.ends_with(",class") {
                let class = fields.pop().unwrap();
                assert!(["0", "1", "low", "medium", "high", "2", "3", "4"].contains(&class), "{model}: {predicted}");
            }
            let values: Vec<f64> = fields.into_iter().map(|x| x.parse().unwrap()).collect();
            assert!(values.iter().all(|x| !x.is_nan()), "{model}: {predicted}");
        }
        let draws = folder.expect(&[0], &format!("sample --posterior fit{i} -n 3")).out;
        assert_eq!(draws.lines().count(), 4, "{model}");
        let report = folder.report(&format!("fit{i}"));
        assert!(report["loo"]["elpd"].is_f64() && report["train"]["nll"].is_f64(), "{model}");
        assert_eq!(report["test"]["nll"], report["train"]["nll"], "{model}");
        let page = String::from_utf8(folder.read(&format!("fit{i}/report.html"))).unwrap();
        let has = |section: &str| page.contains(&format!("id=\"{section}\""));
        assert!(has("residuals") && has("coefficients") && has("pairs"), "{model}");
        // Some times are censored.
        assert_eq!(has("outcome"), *model != "survival", "{model}");
        assert_eq!(has("confusion"), ["logistic", "ordinal"].contains(model), "{model}");
        assert_eq!(has("classes"), *model == "ordinal", "{model}");
        assert!(text.contains("\ntest  "), "{model}: {text}");
        shows_groups_survival_and_classes(model, formula, &report, has);
    }
    folder.expect(&[0], "fit --config fit8/config.toml --quiet --out again");
    folder.assert_same("again", "fit8");
}

/// What the page has for some families only.
fn shows_groups_survival_and_classes(
    model: &str,
    formula: &str,
    report: &serde_json::Value,
    has: impl Fn(&str) -> bool,
) {
    assert_eq!((has("shrinkage"), has("survival")), (formula.contains("|g)"), model == "survival"), "{model}");
    if has("shrinkage") {
        let found = &report["group_estimates"][0];
        let number = |at: &str| found.pointer(at).and_then(serde_json::Value::as_f64).unwrap();
        let parameter = |name: &str| {
            report["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .find(|of| of["name"] == name)
                .map(|of| of["mean"].as_f64().unwrap())
        };
        assert_eq!(
            (&found["grouping"], &found["column"], &found["rows"][0]),
            (&"g".into(), &"(intercept)".into(), &15.into())
        );
        // Cut points take the place of an intercept.
        let own = parameter("g[g0, (intercept)]").unwrap() + parameter("(intercept)").unwrap_or(0.0);
        assert!((number("/partial/0/1") - own).abs() < 0.1, "{model}: {found}");
        // Between what the group says alone and the centre of all, or close to it.
        let (alone, centre) = (number("/alone/0/1"), number("/shared"));
        assert!((own - centre).abs() < (alone - centre).abs() + 0.1, "{model}: {found}");
        // Beyond the centre where the outcome's mean is exponential, but among the groups.
        let medians = found["partial"].as_array().unwrap().iter().map(|of| of[1].as_f64().unwrap());
        let (low, high) = (medians.clone().fold(f64::INFINITY, f64::min), medians.fold(f64::NEG_INFINITY, f64::max));
        assert!((low..high).contains(&number("/pooled")), "{model}: {found}");
    }
    let classes = report.pointer("/conditional_effects/0/classes").and_then(serde_json::Value::as_array);
    assert_eq!(classes.is_some(), model == "ordinal", "{model}");
    for of_class in classes.into_iter().flatten() {
        assert_eq!(of_class["expected"].as_array().unwrap().len(), 41, "{model}");
    }
    if has("survival") {
        let check = &report["survival_check"];
        let (rows, censored) = (check["rows"].as_u64().unwrap(), check["censored"].as_u64().unwrap());
        assert!(rows == 180 && (10..170).contains(&censored), "{check}");
        let at =
            |curve: &str, i: usize| check[curve].as_array().unwrap().iter().map(|of| of[i].as_f64().unwrap()).collect();
        let [data, low, high]: [Vec<f64>; 3] = [at("observed", 1), at("replicated", 0), at("replicated", 2)];
        let outside = (0..data.len()).filter(|i| data[*i] < low[*i] || data[*i] > high[*i]).count();
        assert!(outside < data.len() / 3, "{outside} of {}", data.len());
    }
}

/// Classes have coefficients against the reference, their ratios, and probabilities as a column varies.
#[test]
fn classes_are_compared_with_the_reference() {
    let folder = CommandFolder::new("effects-classes");
    folder.write("table.csv", table(180));
    folder.expect(&[0], "fit softmax --data table.csv --outcome rating --only x --quiet --out fit");
    let report = folder.report("fit");
    let about = &report["model"]["coefficients"];
    assert_eq!(about["classes"]["reference"], "high");
    assert_eq!(about["classes"]["columns"], serde_json::json!(["(intercept)", "x"]));
    let effect = &report["conditional_effects"][0];
    assert_eq!((&effect["column"], &effect["outcome"]), (&"x".into(), &"probability of each rating".into()));
    let middle = |class: usize, at: usize| effect["classes"][class]["expected"][at][1].as_f64().unwrap();
    // Sorted as text: high, low, medium. Where `x` is large the highest is likelier; the medians nearly sum to one.
    assert!(middle(0, 40) > middle(0, 0) && middle(1, 40) < middle(1, 0));
    assert!(((0..3).map(|class| middle(class, 20)).sum::<f64>() - 1.0).abs() < 0.02);
    let page = String::from_utf8(folder.read("fit/report.html")).unwrap();
    for text in
        ["id=\"coefficients\"", "id=\"ratios\"", "log odds of low against high", "low:<wbr/>x", "id=\"conditional\""]
    {
        assert!(page.contains(text), "{text}");
    }
}

/// Without a formula all columns are main effects, and options say what a formula would.
#[test]
fn options_say_what_a_formula_would() {
    let folder = CommandFolder::new("effects-options");
    folder.write("table.csv", table(120));
    let cases = [
        ("binomial", "k|trials(n)~x", "--outcome k --trials n --only x"),
        ("survival", "time|event(seen)~x", "--outcome time --event seen --only x"),
        ("negative-binomial", "over~x+offset(log(n))", "--outcome over --exposure n --only x"),
        ("gamma", "amount~0+x+g", "--outcome amount --only x,g --no-intercept"),
        ("poisson", "count~x", "--outcome count --only x --prior x~normal(0,1)"),
    ];
    for (i, (model, formula, options)) in cases.iter().enumerate() {
        let fit = format!("fit {model} --data table.csv --quiet --max-evals 3000");
        let prior = if options.contains("--prior") { "--prior x~normal(0,1)" } else { "" };
        folder.expect(&[0, 1], &format!("{fit} --formula {formula} {prior} --out with{i}"));
        folder.expect(&[0, 1], &format!("{fit} {options} --out without{i}"));
        let draws = |which: &str| folder.expect(&[0], &format!("sample --posterior {which}{i} -n 50")).out;
        assert_eq!(draws("with"), draws("without"), "{model}");
    }
}

/// Priors are in the units of the data, can be changed, and say what they expect.
#[test]
fn priors_are_shown_and_changed() {
    let folder = CommandFolder::new("effects-priors");
    folder.write("table.csv", table(60));
    let text = folder.expect(
        &[0],
        "prior linear --data table.csv --formula real~x+(1|g) --prior x~normal(2,0.1) --prior sd(g)~half_normal(0.5) --out y.csv",
    )
    .out;
    for wanted in ["x ~ normal(2, 0.1)", "sd(g, (intercept)) ~ half_normal(0.5)", "sd of real", "observed"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let drawn = String::from_utf8(folder.read("y.csv")).unwrap();
    assert_eq!((drawn.lines().count(), header(&drawn).split(',').count()), (1001, 60));
    let json =
        folder.expect(&[0], "prior poisson --data table.csv --outcome count --only x --json --draws 4000 --seed 3").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // The 95% quantile of normal(0, 2.5 / sd of x).
    let x = &json["parameters"][1];
    let prior = json["priors"][1].as_str().unwrap();
    let sd: f64 = prior.trim_end_matches(')').rsplit(", ").next().unwrap().parse().unwrap();
    assert!((x["q95"].as_f64().unwrap() / (1.645 * sd) - 1.0).abs() < 0.08, "{x} {prior}");
    // A strong prior moves the posterior.
    folder
        .expect(&[0, 1], "fit linear --data table.csv --formula real~x --prior x~normal(2,0.01) --quiet --out strong");
    let report = folder.report("strong");
    let mean = report["parameters"][1]["mean"].as_f64().unwrap();
    assert!((mean - 2.0).abs() < 0.05, "{mean}");
    assert!(report["model"]["priors"].to_string().contains("x ~ normal(2, 0.01)"));
}

/// One sentence for each mistake, and nothing written.
#[test]
fn mistakes_are_named() {
    let folder = CommandFolder::new("effects-mistakes");
    folder.write("table.csv", table(40));
    let cases = [
        ("ordinal --formula rating~x", "--levels"),
        ("ordinal --formula rating~x --levels low,high", "`medium`, which --levels does not name"),
        ("ordinal --formula rating~x --levels low,medium,high,top", "no category `top`"),
        ("ordinal --formula stars~x --levels 1,2", "order of their own"),
        ("binomial --formula k~x", "number of trials"),
        ("poisson --formula k|trials(n)~x+(1|g)", "have no meaning for this model"),
        ("gamma --formula real~x", "not a positive number"),
        ("logistic --formula count~x+(1|g)", "not 0 or 1, as a logistic model needs"),
        ("robust --formula rating~x", "has 3 levels, but a robust model needs numbers"),
        ("linear --formula real~x+(1|g) --prior-sd 1", "--prior-sd"),
        ("linear --formula real~x+(1|g) --noise-sd 1", "--noise-sd"),
        ("linear --formula real~x+(1|g) --prior y~normal(0,1)", "there is no such parameter"),
        ("linear --formula real~x+(1|g) --prior x~normal(0,-1)", "sd"),
        ("linear --formula real~x+(1|g) --prior nonsense", "expected PARAMETER ~ DISTRIBUTION"),
        ("softmax --formula rating~x+(1|g)", "fixed coefficients only"),
        ("softmax --outcome rating --prior x~normal(0,1)", "--prior does not apply to softmax"),
        ("gamma --outcome amount --trials n", "--trials does not apply to gamma"),
        ("gamma", "--outcome is missing"),
        ("linear --formula real~x+(1|h)", "`h`"),
    ];
    for (arguments, wanted) in cases {
        let text = folder.expect(&[2], &format!("fit {arguments} --data table.csv --out never")).err;
        assert!(text.contains(wanted), "{arguments}: {text}");
        assert!(!folder.path("never").exists(), "{arguments}");
    }
}
