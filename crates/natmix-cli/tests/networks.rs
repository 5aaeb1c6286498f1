//! `natmix fit mlp` from end to end: files, figures, repeatability, a killed run, predictions, bad input.

mod common;

use common::{CommandFolder, TableNoise, data_file, number};

/// Rows of two features with a class that no line separates, a class that is more likely for larger `a` (`chance`), or a
/// real outcome.
fn table(rows: usize, seed: u64, outcome: &str) -> String {
    let mut noise = TableNoise(seed);
    let mut text = String::from("a,b,y\n");
    for _ in 0..rows {
        let (a, b) = (4.0 * noise.uniform() - 2.0, 4.0 * noise.uniform() - 2.0);
        let y = match outcome {
            "number" => a * b + 0.1 * noise.normal(),
            "chance" => f64::from(u8::from(noise.uniform() < 1.0 / (1.0 + (-1.5 * a).exp()))),
            _ => f64::from(u8::from(a * b > 0.0)),
        };
        let y = if outcome == "classes" { format!("c{}", y as u8 + u8::from(a > 1.0)) } else { y.to_string() };
        text += &format!("{a},{b},{y}\n");
    }
    text
}

const FIT: &str = "fit mlp --data table.csv --outcome y --hidden 16 --quiet";

/// An IDX folder of tiny images: a bright dot on the left or on the right.
fn images(folder: &CommandFolder, name: &str, rows: usize, seed: u64) {
    std::fs::create_dir_all(folder.path(name)).unwrap();
    let mut noise = TableNoise(seed);
    for (set, rows) in [("train", rows), ("t10k", rows / 2)] {
        let mut pixels = vec![0, 0, 8, 3, 0, 0, (rows / 256) as u8, (rows % 256) as u8, 0, 0, 0, 4, 0, 0, 0, 4];
        let mut labels = vec![0, 0, 8, 1, 0, 0, (rows / 256) as u8, (rows % 256) as u8];
        for i in 0..rows {
            let label = (i % 2) as u8;
            labels.push(label);
            pixels.extend((0..16).map(|at| {
                let bright = (at % 4 >= 2) == (label == 1);
                (if bright { 150.0 } else { 20.0 } + 80.0 * noise.uniform()) as u8
            }));
        }
        std::fs::write(folder.path(name).join(format!("{set}-images-idx3-ubyte")), pixels).unwrap();
        std::fs::write(folder.path(name).join(format!("{set}-labels-idx1-ubyte")), labels).unwrap();
    }
}

#[test]
fn two_classes_no_line_separates() {
    let folder = CommandFolder::new("net-classes");
    folder.write("table.csv", table(400, 1, "class"));
    folder.write("later.csv", table(300, 2, "class"));
    folder.expect(&[0, 1], &format!("{FIT} --test later.csv --components 2 --out fit"));
    let report = folder.report("fit");
    assert!(number(&report, "/test/accuracy") > 0.93, "{}", report["test"]);
    assert!(number(&report, "/test/nll") < 0.2 && number(&report, "/test/ece") < 0.15, "{}", report["test"]);
    assert!(number(&report, "/elbo/mean").is_finite() && report["components"].as_array().unwrap().len() == 2);
    for file in ["posterior.safetensors", "trace.jsonl", "report.html", "config.toml"] {
        assert!(folder.path("fit").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    // Predictions agree with the scores, and entropy decomposes.
    let rows = folder.expect(&[0], "predict --posterior fit --data later.csv").out;
    let mut lines = rows.lines();
    assert_eq!(lines.next(), Some("probability,sd,entropy,expected_entropy,mutual_information,class"));
    let parsed: Vec<Vec<f64>> = lines.map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    assert_eq!(parsed.len(), 300);
    for row in &parsed {
        assert!((row[2] - row[3] - row[4]).abs() < 1e-6 && (0.0..=1.0).contains(&row[0]), "{row:?}");
    }
    let means = folder.expect(&[0], "predict --posterior fit --data later.csv --means-only").out;
    assert!(means != rows);
    // One line per component and row; averaged by weight they are the predictions of the mixture.
    let each = folder.expect(&[0], "predict --posterior fit --data later.csv --per-component").out;
    assert!(each.starts_with("component,weight,probability,sd,entropy"), "{}", each.lines().next().unwrap());
    let each: Vec<Vec<f64>> =
        each.lines().skip(1).map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    assert_eq!(each.len(), 600);
    for (i, row) in parsed.iter().enumerate() {
        let average = each[i][1] * each[i][2] + each[i + 300][1] * each[i + 300][2];
        assert!((average - row[0]).abs() < 1e-6 && each[i][0] == 0.0 && each[i + 300][0] == 1.0);
    }
}

/// A network is trusted only where rows that it was not trained on show that its predictions are calibrated.
#[test]
fn trust_needs_rows_that_were_not_trained_on() {
    let folder = CommandFolder::new("net-trust");
    folder.write("table.csv", table(400, 1, "chance"));
    folder.write("later.csv", table(400, 2, "chance"));
    let verdict = |run: &str| folder.report(run)["verdict"].clone();
    folder.expect(&[0], &format!("{FIT} --epochs 60 --out alone"));
    let alone = verdict("alone");
    assert!(alone["trusted"].is_null() && alone["reasons"].as_array().unwrap().is_empty(), "{alone}");
    let sentence = alone["sentence"].as_str().unwrap();
    assert!(sentence.contains("Not measured: calibration (there are no test or validation rows)"), "{sentence}");

    folder.expect(&[0], &format!("{FIT} --epochs 60 --test later.csv --out tested"));
    let tested = verdict("tested");
    assert_eq!(tested["trusted"], true, "{tested}");
    assert!(tested["sentence"].as_str().unwrap().contains("calibrated on 400 test rows"), "{tested}");
    assert_eq!(folder.report("tested")["test"]["draws"], 1000);

    // Outcomes that have nothing to do with the features: confident predictions are wrong half of the time.
    let mut noise = TableNoise(5);
    let lines: Vec<String> = table(400, 2, "chance")
        .lines()
        .skip(1)
        .map(|line| format!("{},{}", line.rsplit_once(',').unwrap().0, u8::from(noise.uniform() > 0.5)))
        .collect();
    folder.write("other.csv", format!("a,b,y\n{}\n", lines.join("\n")));
    folder.expect(&[1], &format!("{FIT} --epochs 60 --test other.csv --out wrong"));
    let wrong = verdict("wrong");
    assert!(
        wrong["trusted"] == false && wrong["reasons"][0].as_str().unwrap().contains("they are overconfident"),
        "{wrong}"
    );

    // One epoch is too short to judge the loss, and is not called converged.
    folder.expect(&[0, 1], &format!("{FIT} --epochs 1 --test later.csv --out short"));
    assert!(verdict("short")["trusted"] != true && folder.report("short")["stop"]["converged"] == false);
}

/// Components are weighted by how well they predict the rows of a file.
#[test]
fn stacked_weights_need_validation_rows() {
    let folder = CommandFolder::new("net-stacked");
    folder.write("table.csv", table(120, 1, "class"));
    folder.write("held.csv", table(400, 3, "class"));
    let fit = format!("{FIT} --components 3 --epochs 60 --validation held.csv --patience 60");
    folder.expect(&[0, 1], &format!("{fit} --out equal"));
    folder.expect(&[0, 1], &format!("{fit} --weight-step stacked --out stacked"));
    let [equal, stacked] = ["equal", "stacked"].map(|run| folder.report(run));
    let weights = |report: &serde_json::Value| -> Vec<f64> {
        report["components"].as_array().unwrap().iter().map(|c| c["weight"].as_f64().unwrap()).collect()
    };
    assert!(weights(&equal).iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-9));
    assert!(weights(&stacked).iter().any(|w| (w - 1.0 / 3.0).abs() > 0.02), "{:?}", weights(&stacked));
    let nll = |report| number(report, "/validation/nll");
    assert!(nll(&stacked) < nll(&equal) + 1e-6, "{} {}", nll(&stacked), nll(&equal));
    assert_eq!(stacked["validation"]["rows"], 400);
    // The same components, and the same run again from its file.
    assert_eq!(equal["components"][2]["mean"], stacked["components"][2]["mean"]);
    folder.expect(&[0, 1], "fit --config stacked/config.toml --quiet --out again");
    assert!(folder.read("stacked/posterior.safetensors") == folder.read("again/posterior.safetensors"));
    let error = folder.expect(&[2], &format!("{FIT} --components 3 --weight-step stacked --out x")).err;
    assert!(error.contains("--weight-step must not be stacked without rows to choose the weights by"), "{error}");
}

#[test]
fn numbers_classes_and_plain_networks() {
    let folder = CommandFolder::new("net-numbers");
    folder.write("table.csv", table(400, 3, "number"));
    folder.write("later.csv", table(200, 4, "number"));
    folder.expect(&[0, 1], &format!("{FIT} --test later.csv --out fit"));
    // The outcome's own standard deviation is 1.3.
    let rmse = number(&folder.report("fit"), "/test/rmse");
    assert!(rmse < 0.5, "{rmse}");
    let rows = folder.expect(&[0], "predict --posterior fit --data later.csv").out;
    assert!(rows.starts_with("mean,sd,q05,q50,q95\n"), "{rows}");
    folder.expect(&[0, 1], &format!("{FIT} --test later.csv --method adam --ensemble 3 --epochs 60 --out plain"));
    let report = folder.report("plain");
    assert!(report["components"].as_array().unwrap().len() == 3 && number(&report, "/test/rmse") < 0.5);

    folder.write("table.csv", table(400, 5, "classes"));
    folder.expect(&[0, 1], &format!("{FIT} --categorical y --epochs 100 --method ivon --validation 0.2 --out levels"));
    let report = folder.report("levels");
    assert!(number(&report, "/train/accuracy") > 0.8, "{}", report["train"]);
    let rows = folder.expect(&[0], "predict --posterior levels --data table.csv").out;
    assert!(rows.starts_with("p[c0],p[c1],p[c2],entropy"), "{}", rows.lines().next().unwrap());
}

#[test]
fn same_bits_for_threads_and_config_file() {
    let folder = CommandFolder::new("net-bits");
    folder.write("table.csv", table(300, 1, "class"));
    let fit = format!("{FIT} --components 2 --epochs 20 --seed 3");
    folder.expect(&[0], &format!("{fit} --threads 1 --out a"));
    folder.expect(&[0], &format!("{fit} --threads 2 --out b"));
    folder.expect(&[0], "fit --config a/config.toml --quiet --out c");
    let bytes = folder.read("a/posterior.safetensors");
    assert!(bytes == folder.read("b/posterior.safetensors") && bytes == folder.read("c/posterior.safetensors"));
}

#[test]
fn the_engine_fits_small_networks() {
    let folder = CommandFolder::new("net-engine");
    folder.write("table.csv", table(100, 1, "class"));
    let fit = "fit mlp --data table.csv --outcome y --hidden 4 --quiet --method component-draws --components 2";
    folder.expect(&[0, 1], &format!("{fit} --prior-precision 1 --max-evals 20000 --out full"));
    let report = folder.report("full");
    assert!(number(&report, "/k_hat").is_finite() && number(&report, "/train/accuracy") > 0.7);
    assert_eq!(report["parameters"].as_array().unwrap().len(), 17);
}

#[test]
fn images_and_out_of_distribution_images() {
    let folder = CommandFolder::new("net-images");
    images(&folder, "dots", 400, 1);
    images(&folder, "others", 100, 2);
    folder.expect(&[0], "fit mlp --data dots --hidden 8 --epochs 20 --ood others --quiet --out fit");
    let report = folder.report("fit");
    assert_eq!(number(&report, "/test/accuracy"), 1.0);
    // Images of the same kind cannot be distinguished.
    let auroc = number(&report, "/ood/auroc");
    assert!((auroc - 0.5).abs() < 0.15, "{auroc}");
    let rows = folder.expect(&[0], "predict --posterior fit --data others --out p.csv").out;
    assert!(rows.is_empty() && String::from_utf8(folder.read("p.csv")).unwrap().lines().count() == 51);
}

/// The names of so many weights would not fit into the file's header: the posterior is saved without them, and still
/// usable.
#[test]
fn large_networks_are_saved() {
    let folder = CommandFolder::new("net-large");
    folder.write("table.csv", table(40, 1, "class"));
    folder.expect(
        &[0],
        "fit mlp --data table.csv --outcome y --hidden 400,1600 --epochs 1 --score-draws 1 --quiet --out fit",
    );
    let rows = folder.expect(&[0], "predict --posterior fit --data table.csv").out;
    assert_eq!(rows.lines().count(), 41);
    let drawn = folder.expect(&[0], "sample --posterior fit -n 1").out;
    let weights = 3 * 400 + 401 * 1600 + 1601;
    assert!(drawn.starts_with("w0,w1,") && drawn.lines().all(|line| line.split(',').count() == weights));
}

#[test]
fn bad_input_is_reported_with_its_option() {
    let folder = CommandFolder::new("net-bad");
    folder.write("table.csv", table(60, 1, "class"));
    let error = |line: &str| folder.expect(&[2], line).err;
    assert!(error(&format!("{FIT} --hidden 0 --out x")).contains("at least one unit"));
    let rows = "--minibatch must be from 1 to 60, the number of rows, not 61";
    assert!(error(&format!("{FIT} --minibatch 61 --out x")).contains(rows));
    // The old name still works; both together are refused.
    assert!(error(&format!("{FIT} --batch 61 --out x")).contains(rows));
    assert!(error(&format!("{FIT} --batch 10 --minibatch 10 --out x")).contains("cannot be used multiple times"));
    let unread = [
        ("--tolerance 0.1", "--tolerance is not read by method vogn"),
        ("--finish always", "--finish is not read by method vogn"),
        ("--method ngvi --finish always", "--finish must not be always for networks"),
        ("--rule plain", "--rule is not read by method vogn"),
        ("--covariance full", "--covariance must be diag with method vogn"),
        ("--init-posterior y", "--init-posterior is not read by method vogn"),
        ("--weight-decay 0.1", "--weight-decay is not read by method vogn, but by adam"),
        ("--method ivon --curvature gauss-newton", "--curvature is not read by method ivon, but by vogn"),
        ("--method adam --momentum 0.5", "--momentum is not read by method adam, but by vogn and ivon"),
        ("--method adam --draws-per-component 2", "--draws-per-component is not read by method adam"),
        ("--method ngvi --epochs 3", "--epochs is not read by method ngvi, but by vogn, ivon and adam"),
        ("--patience 3", "--patience is not read without `validation`"),
        ("--prior-sd 3", "--prior-sd does not apply to mlp"),
        ("--trace-frames 60", "--trace-frames does not apply to mlp"),
    ];
    for (option, words) in unread {
        let message = error(&format!("{FIT} {option} --out x"));
        assert!(message.contains(words), "{option}: {message}");
    }
    assert!(error(&format!("{FIT} --epochs 0 --out x")).contains("epochs"));
    assert!(
        error(&format!("{FIT} --likelihood poisson --out x"))
            .contains("must be one of bernoulli, categorical, gaussian")
    );
    assert!(
        error(&format!("{FIT} --ensemble 3 --out x")).contains("--ensemble is not read by method vogn, but by adam")
    );
    assert!(error(&format!("{FIT} --resume --out x")).contains("no run was interrupted"));
    assert!(
        error("fit logistic --data table.csv --outcome y --hidden 3 --out x")
            .contains("--hidden does not apply to logistic, only to mlp")
    );
    folder.write("three.csv", "a,y\n1,0\n2,1\n3,2\n4,0.5\n");
    let line = "fit mlp --data three.csv --outcome y --likelihood categorical --quiet --out x";
    assert!(error(line).contains("row 3 is 0.5"), "{}", error(line));
    images(&folder, "dots", 40, 1);
    let path = folder.path("dots").join("train-images-idx3-ubyte");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    assert!(
        error("fit mlp --data dots --quiet --out x").contains("635"),
        "{}",
        error("fit mlp --data dots --quiet --out x")
    );
    assert!(!folder.path("x").exists());
    let error = folder.expect(&[2], "reproduce uci --sets mars --quiet --out x").err;
    assert!(error.contains("NATMIX_DATA") || error.contains("mars"), "{error}");
}

#[test]
fn a_killed_training_resumes_to_the_same_bits() {
    let folder = CommandFolder::new("net-killed");
    folder.write("table.csv", table(400, 1, "class"));
    let fit = format!("{FIT} --components 2 --seed 3");
    folder.expect(&[0], &format!("{fit} --out whole"));
    let mut run = folder.command(&format!("{fit} --out broken")).spawn().unwrap();
    let checkpoint = folder.path("broken/.part/checkpoint.safetensors");
    let begin = std::time::Instant::now();
    while !checkpoint.exists() && begin.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(checkpoint.exists(), "it was over before it could be killed");
    folder.expect(&[0], &format!("{fit} --resume --out broken"));
    assert!(folder.read("whole/posterior.safetensors") == folder.read("broken/posterior.safetensors"));
    let epochs = |run: &str| String::from_utf8(folder.read(&format!("{run}/trace.jsonl"))).unwrap().lines().count();
    assert_eq!(epochs("whole"), epochs("broken"));
    assert!(!checkpoint.exists() && !folder.path("broken/checkpoint.safetensors").exists());
}

/// Needs the data folder; checks nothing if NATMIX_DATA is not set.
#[test]
fn mnist_after_one_epoch() {
    let sets = ["mnist", "fashion-mnist"].map(|name| data_file(&format!("{name}/train-images-idx3-ubyte.gz")));
    let [Some(digits), Some(clothes)] = sets.map(|file| Some(file?.rsplit_once('/')?.0.to_owned())) else { return };
    let folder = CommandFolder::new("net-mnist");
    let fit = format!("fit mlp --data {digits} --ood {clothes} --epochs 1 --score-draws 5 --quiet --out fit");
    folder.expect(&[0], &fit);
    let report = folder.report("fit");
    assert!(number(&report, "/test/accuracy") > 0.94, "{}", report["test"]);
    assert!(number(&report, "/test/nll") < 0.2 && number(&report, "/ood/auroc") > 0.8, "{}", report["ood"]);
}
