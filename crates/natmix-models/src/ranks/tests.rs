use super::*;
use crate::design::{DesignOptions, OutcomeKind};
use crate::observations::Dataset;
use crate::study::Study;
use crate::table::{Table, TableFile};
use natmix::target::{CurvatureSums, EvalOut, Points};
use natmix::{Config, Fit};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

/// A table with several sections and a last block that is not full.
const ROWS: usize = 100_003;

struct TableOnDisk(PathBuf);

impl TableOnDisk {
    fn new(name: &str, rows: usize) -> Self {
        let path = std::env::temp_dir().join(format!("natmix-ranks-{name}-{}.csv", std::process::id()));
        let mut text = String::from("a,b,w,y\n");
        for row in 0..rows {
            let (a, b) = ((row as f64 * 0.7).sin(), (row as f64 * 1.3).cos());
            writeln!(text, "{a:.6},{b:.6},{},{}", 1 + row % 3, row * 7919 % 5 % 3).unwrap();
        }
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TableOnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const KINDS: [OutcomeKind; 3] = [OutcomeKind::Poisson, OutcomeKind::Softmax, OutcomeKind::Linear];

fn options() -> DesignOptions {
    DesignOptions { outcome: Some("y".into()), weights: Some("w".into()), ..DesignOptions::default() }
}

/// Bits of all results of `study` at a few points, and of some of its rows.
fn results(study: &Study) -> Vec<u64> {
    let (dim, n, rows) = (study.dim(), 3, study.num_rows().unwrap());
    let z: Vec<f64> = (0..n * dim).map(|at| (at as f64).sin() * 0.3).collect();
    let weights: Vec<f64> = (0..2 * n).map(|at| at as f64 * 0.2 - 0.3).collect();
    let mut bits = Vec::new();
    let subset: Vec<u32> = (0..500).map(|at| at * 199 % rows as u32).collect();
    for rows in [Rows::All, Rows::Subset(&subset)] {
        for (kind, shape) in study.curvatures() {
            let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * dim]);
            let mut sums = vec![0.0; 2 * shape.len(dim)];
            let curv = CurvatureSums { kind: *kind, shape: *shape, weights: &weights, sums: &mut sums };
            let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
            study.eval(rows, Points::new(&z, dim), out, &mut Scratch::default()).unwrap();
            bits.extend([log_p, grad, sums].into_iter().flatten().map(f64::to_bits));
        }
    }
    let some = study.regression.data().take(&[rows - 1, 0, rows / 2, rows / 2 + 1]).unwrap();
    bits.extend(some.design().iter().chain(some.weights().unwrap()).map(|x| x.to_bits()));
    bits
}

fn load(path: &Path, kind: OutcomeKind, communicator: impl Communicator + 'static) -> (Arc<Ranks>, Study) {
    let ranks = Arc::new(Ranks::new(communicator));
    let file = TableFile::open(path, &[]).unwrap();
    let study = Study::shared(&file, &ranks, "", &options(), kind, 2.5, None).unwrap();
    (ranks, study)
}

fn serve(ranks: &Ranks, study: &Study) -> Result<(), TargetError> {
    let Dataset::Shared(rows) = study.regression.data() else { panic!("the rows are shared") };
    ranks.serve(study, Some(rows))
}

/// Shares the table between threads; `lead` is what rank 0 does.
fn shared<T: Send>(path: &Path, kind: OutcomeKind, ranks: usize, lead: impl Fn(&Study) -> T) -> T {
    let mut all = channels(ranks).into_iter();
    let first = all.next().unwrap();
    thread::scope(|scope| {
        for communicator in all {
            scope.spawn(|| {
                let (ranks, study) = load(path, kind, communicator);
                serve(&ranks, &study).unwrap();
            });
        }
        let (ranks, study) = load(path, kind, first);
        let done = lead(&study);
        ranks.stop();
        done
    })
}

#[test]
fn any_number_of_processes_gives_the_same_bits_as_one() {
    for rows in [1_003, ROWS] {
        let table = TableOnDisk::new("bits", rows);
        for kind in KINDS {
            let alone = Study::new(Table::read(&table.0, &[]).unwrap(), &options(), kind, 2.5, None).unwrap();
            let alone = results(&alone);
            for ranks in [1, 2, 3, 8] {
                assert!(shared(&table.0, kind, ranks, results) == alone, "{rows} rows, {kind:?}, {ranks} processes");
            }
        }
    }
}

#[test]
fn a_fit_has_the_same_bits_with_several_threads_in_front() {
    let table = TableOnDisk::new("fit", ROWS);
    let kind = OutcomeKind::Poisson;
    let fit = |study: &Study| {
        let config = Config { threads: 2, max_evals: Some(400), ..Config::default() };
        let fitted = Fit::new(study, config).run().unwrap();
        let component = &fitted.mixture.components()[0];
        component.mean().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let alone = fit(&Study::new(Table::read(&table.0, &[]).unwrap(), &options(), kind, 2.5, None).unwrap());
    assert_eq!(shared(&table.0, kind, 3, fit), alone);
}

#[test]
fn each_process_holds_its_share_only() {
    let table = TableOnDisk::new("share", ROWS);
    let held = |study: &Study| {
        let Dataset::Shared(rows) = study.regression.data() else { panic!("the rows are shared") };
        (
            SharedRows::share(rows.ranks(), ROWS).len(),
            rows.own_records(&[0.0]).is_ok(),
            rows.own_records(&[(ROWS - 1) as f64]).is_ok(),
        )
    };
    let (own, first, last) = shared(&table.0, OutcomeKind::Poisson, 3, held);
    assert!(own < ROWS * 2 / 3 && first && !last, "{own}");
}

/// Ends after some messages, as if it were killed.
#[derive(Debug)]
struct Mortal(Channels, AtomicUsize);

impl Communicator for Mortal {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn ranks(&self) -> usize {
        self.0.ranks()
    }
    fn send(&self, to: usize, message: &[f64]) -> Result<(), Lost> {
        match self.1.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Lost(self.rank())),
            _ => self.0.send(to, message),
        }
    }
    fn receive(&self, from: usize, message: &mut Vec<f64>) -> Result<(), Lost> {
        self.0.receive(from, message)
    }
}

#[test]
fn a_process_that_ends_is_an_error_and_nobody_waits_for_it() {
    let table = TableOnDisk::new("ends", ROWS);
    let kind = OutcomeKind::Poisson;
    let mut all = channels(3).into_iter();
    let first = all.next().unwrap();
    thread::scope(|scope| {
        for (number, communicator) in all.enumerate() {
            // The first of them agrees, helps to build the model, and answers twice.
            let mortal = Mortal(communicator, AtomicUsize::new(if number == 0 { 4 } else { usize::MAX }));
            let path = &table.0;
            scope.spawn(move || {
                let (ranks, study) = load(path, kind, mortal);
                assert_eq!(serve(&ranks, &study).is_err(), number == 0);
            });
        }
        let (ranks, study) = load(&table.0, kind, first);
        let ask = || {
            let (mut log_p, z) = ([0.0], vec![0.1; study.dim()]);
            let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
            study.eval(Rows::All, Points::new(&z, z.len()), out, &mut Scratch::default())
        };
        let error = (0..10).find_map(|_| ask().err()).expect("one process ends");
        assert!(error.to_string().contains("process 1 has ended"), "{error}");
        ranks.stop();
        // Until the others have ended: the last one may still be about to answer.
        (ranks, study)
    });
}

#[test]
fn processes_that_differ_are_told_apart_and_all_hear_it() {
    let about = |settings: &str, columns: &str, rows: &str| About {
        settings: settings.into(),
        columns: columns.split(", ").map(String::from).collect(),
        rows: rows.into(),
    };
    let usual = about("logistic", "a, b", "500 rows");
    let agree = |version: &str, about: Result<&About, String>| {
        let mut all = channels(3).into_iter().map(Ranks::new);
        let (first, second, third) = (all.next().unwrap(), all.next().unwrap(), all.next().unwrap());
        thread::scope(|scope| {
            let others =
                [scope.spawn(|| second.agree_as("1.0", Ok(&usual))), scope.spawn(|| third.agree_as(version, about))];
            let own = first.agree_as("1.0", Ok(&usual));
            for other in others {
                assert_eq!(other.join().unwrap().map_err(|e| e.to_string()).is_ok(), own.is_ok());
            }
            own.map_err(|error| error.to_string())
        })
    };
    assert!(agree("1.0", Ok(&usual)).is_ok());
    let told = |version, other: &About| agree(version, Ok(other)).unwrap_err();
    assert!(told("2.0", &usual).starts_with("process 2 runs natmix 2.0, process 0 1.0:"));
    // A process of another version may differ in anything.
    assert!(told("2.0", &about("", "", "")).starts_with("process 2 runs natmix 2.0, process 0 1.0:"));
    assert!(told("1.0", &about("linear", "a, b", "500 rows")).starts_with("process 2 has other settings"));
    for (columns, words) in [
        ("a, größe", "(`größe`, but not `b`)"),
        ("a, b, c", "(also `c`)"),
        ("a", "(not `b`)"),
        ("b, a", "(in another order)"),
    ] {
        let told = told("1.0", &about("logistic", columns, "500 rows"));
        assert!(told.starts_with(&format!("process 2 has read other columns than process 0 {words}:")), "{told}");
    }
    assert!(told("1.0", &about("logistic", "a, b", "501 rows")).starts_with("process 2 has read other rows"));
    assert_eq!(agree("1.0", Err("cannot read größe.csv".into())).unwrap_err(), "process 2: cannot read größe.csv");
}

#[test]
fn data_that_differs_is_refused_before_the_fit() {
    let tables = [TableOnDisk::new("this", 500), TableOnDisk::new("that", 501)];
    let mut all = channels(2).into_iter();
    let (first, second) = (all.next().unwrap(), all.next().unwrap());
    let load = |communicator: Channels, table: &TableOnDisk| {
        let file = TableFile::open(&table.0, &[]).unwrap();
        let ranks = Arc::new(Ranks::new(communicator));
        Study::shared(&file, &ranks, "", &options(), OutcomeKind::Linear, 2.5, None)
            .map(drop)
            .map_err(|e| e.to_string())
    };
    let [own, other] = thread::scope(|scope| {
        let other = scope.spawn(|| load(second, &tables[1]));
        [load(first, &tables[0]), other.join().unwrap()]
    });
    assert!(own.unwrap_err().contains("process 1 has read other rows"));
    assert!(other.unwrap_err().contains("process 1 has read other rows"));
}
