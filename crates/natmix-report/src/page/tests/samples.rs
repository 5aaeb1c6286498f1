//! Made-up reports: three modes, a regression, a bad fit, and empty ones.

use natmix::answer::delivered::DeliveredChains;
use natmix::answer::level::Level;
use natmix::observe::TraceRow;

use crate::formation::{Formation, Moment};
use crate::{
    AnswerSummary, ChainsSummary, ComponentSummary, Draws, Evals, Loo, ModelCheck, ModelSummary, Parameter, Report,
    ReportedEstimate, Scores, StopSummary, VerdictSummary,
};

/// A report with everything that its page is built from.
pub struct Sample {
    pub report: Report,
    pub trace: Vec<TraceRow>,
    pub draws: Draws,
    pub formation: Option<Formation>,
}

/// Three moments of three components in one or two coordinates.
pub fn formation(dim: usize, names: &[&str]) -> Formation {
    let moment = |i: u64| Moment {
        iteration: 10 * i,
        evals: 400 * i,
        elbo: -4.5 / i as f64,
        weights: vec![0.5, 0.3, 0.2],
        means: (0..3).map(|k| vec![(k * i) as f64; dim]).collect(),
        covariances: vec![if dim == 1 { vec![vec![0.4]] } else { vec![vec![1.0, 0.3], vec![0.3, 0.5]] }; 3],
    };
    let names = names[..dim].iter().map(|name| (*name).to_owned()).collect();
    Formation { names, fitted_scale: dim == 2, moments: (1..=3).map(moment).collect() }
}

/// Reproducible normal numbers.
pub struct SampleNoise(u64);

impl SampleNoise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), std::f64::consts::TAU * self.uniform());
        radius * angle.cos()
    }
}

/// An empty report, as a run that stopped at once may leave.
pub fn empty() -> Sample {
    let nothing = ReportedEstimate { mean: f64::NAN, se: f64::NAN };
    let report = Report {
        verdict: VerdictSummary {
            trusted: Some(false),
            sentence: "Nothing was fitted.".into(),
            reasons: vec![],
            notes: vec![],
        },
        elbo: nothing,
        log_evidence: nothing,
        k_hat: f64::NAN,
        k_threshold: f64::NAN,
        ess: f64::NAN,
        answer: None,
        modes: 0,
        search: None,
        components: vec![],
        parameters: vec![],
        model: ModelSummary {
            kind: "density".into(),
            summary: "nothing".into(),
            rows: None,
            priors: vec![],
            table: None,
            coefficients: None,
        },
        evals: Evals { points: 0, diagnostics: 0, chains: 0 },
        iterations: 0,
        seconds: 0.0,
        stop: StopSummary { reason: "interrupted".into(), converged: false },
        seed: 0,
        version: "0.1.0".into(),
        config: serde_json::Value::Null,
        train: None,
        test: None,
        validation: None,
        ood: None,
        loo: None,
        model_checks: vec![],
        outcome_check: None,
        class_predictions: None,
        group_estimates: vec![],
        survival_check: None,
        conditional_effects: vec![],
        model_notes: vec![],
    };
    let draws = Draws { names: vec![], values: vec![], component: vec![], chains: None };
    Sample { report, trace: vec![], draws, formation: None }
}

fn summarise(draws: &Draws) -> Vec<Parameter> {
    let dim = draws.names.len();
    let summary = |(j, name): (usize, &String)| {
        let mut column: Vec<f64> = draws.values.iter().skip(j).step_by(dim).copied().collect();
        column.sort_by(f64::total_cmp);
        let n = column.len() as f64;
        let mean = column.iter().sum::<f64>() / n;
        let sd = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let [q05, q50, q95] = [0.05, 0.5, 0.95].map(|p| column[(p * (n - 1.0)) as usize]);
        Parameter { name: name.clone(), mean, sd, q05, q50, q95, r_hat: None, ess: None }
    };
    draws.names.iter().enumerate().map(summary).collect()
}

fn climb(
    noise: &mut SampleNoise,
    from: f64,
    to: f64,
    se: f64,
    rows: u64,
    components: impl Fn(f64) -> usize,
) -> Vec<TraceRow> {
    let row = |i: u64| {
        let t = i as f64 / rows as f64;
        let gap = (from - to) * (-30.0 * t).exp();
        let se = se + 0.05 * gap.abs();
        let components = components(t);
        let (evals, elbo) = (i * 20 + 20, to + gap + se * noise.normal());
        TraceRow { iteration: i, evals, seconds: t, elbo, se, components, steps: vec![1.0; components] }
    };
    (0..rows).map(row).collect()
}

/// A density in four dimensions with three well-separated modes.
pub fn three_modes() -> Sample {
    let mut noise = SampleNoise(7);
    let (weights, centres) = ([0.5, 0.3, 0.2], [[-8.0, 4.0, 0.3], [0.5, -6.0, 0.3], [7.0, 5.0, -0.6]]);
    let (mut values, mut component) = (vec![], vec![]);
    for _ in 0..2000 {
        let u = noise.uniform();
        let k = usize::from(u > weights[0]) + usize::from(u > weights[0] + weights[1]);
        let [a, b] = [noise.normal(), noise.normal()];
        let c = centres[k];
        values.extend([c[0] + 0.7 * a, c[1] + 0.6 * b + 0.5 * a, (c[2] + 0.35 * noise.normal()).exp(), noise.normal()]);
        component.push(k);
    }
    let names = ["z1", "z2", "scale", "z4"].map(String::from).to_vec();
    let draws = Draws { names, values, component, chains: None };
    let mut sample = empty();
    sample.report.verdict = VerdictSummary {
        trusted: Some(true),
        sentence:
            "Three separate modes were found, with 50%, 30% and 20% of the mass; the importance weights are even, so \
                   means and intervals can be used as they are."
                .into(),
        reasons: vec![],
        notes: vec!["Two components were added and one was removed during the search.".into()],
    };
    sample.report.elbo = ReportedEstimate { mean: -0.0213, se: 0.0041 };
    sample.report.log_evidence = ReportedEstimate { mean: -0.0007, se: 0.0052 };
    (sample.report.k_hat, sample.report.k_threshold, sample.report.ess) = (0.21, 0.7, 3871.2);
    sample.report.modes = 3;
    sample.report.components = (0..3)
        .map(|k| ComponentSummary { weight: weights[k], mean: centres[k].to_vec(), sd: vec![0.7, 0.8, 0.35] })
        .collect();
    sample.report.parameters = summarise(&draws);
    sample.report.model.summary = "three_modes.json: Gaussian mixture in 4 dimensions".into();
    sample.report.evals = Evals { points: 18_240, diagnostics: 4000, chains: 0 };
    (sample.report.iterations, sample.report.seconds) = (412, 0.387);
    sample.report.stop = StopSummary { reason: "converged".into(), converged: true };
    sample.report.config = serde_json::json!({"method": "auto", "components": "auto", "seed": 1, "covariance": "full"});
    sample.trace = climb(&mut noise, -180.0, -0.02, 0.04, 900, |t| match t {
        t if t < 0.1 => 1,
        t if t < 0.2 => 5,
        t if t < 0.35 => 4,
        _ => 3,
    });
    sample.draws = draws;
    sample
}

/// The same, with draws from eight chains.
pub fn with_chains() -> Sample {
    let mut noise = SampleNoise(5);
    let mut sample = three_modes();
    let n = sample.draws.component.len();
    let mut normals = || -> Vec<f64> { (0..n).map(|_| noise.normal()).collect() };
    sample.draws.chains = Some(DeliveredChains {
        count: 8,
        per_start: 2,
        every: 3,
        log_p: normals(),
        energy: normals(),
        energy_change: normals(),
        diverged: vec![false; n],
    });
    for (parameter, r_hat) in sample.report.parameters.iter_mut().zip([1.004, 1.001, 1.023, 1.002]) {
        (parameter.r_hat, parameter.ess) = (Some(r_hat), Some(1234.5));
    }
    sample.report.evals.chains = 20_000;
    sample.report.answer = Some(AnswerSummary {
        level: Level::Chains,
        draws: n,
        ess: 1234.5,
        r_hat: Some(1.023),
        chains: Some(ChainsSummary { count: 8, per_start: 2, iterations: 750, diverged: 0.0, delivered: true }),
        missed_mass: None,
        accuracy: vec![],
    });
    sample
}

/// A logistic regression with 25 parameters and one component.
pub fn logistic() -> Sample {
    let mut noise = SampleNoise(11);
    let names: Vec<String> = ["intercept", "checking account balance", "duration", "credit history", "amount"]
        .into_iter()
        .map(String::from)
        .chain((5..25).map(|j| format!("feature_{j:02}")))
        .collect();
    let centres: Vec<f64> = (0..25).map(|_| 0.6 * noise.normal()).collect();
    let mut values = vec![];
    for _ in 0..1000 {
        let shared = noise.normal();
        let row = centres.iter().enumerate().map(|(j, c)| {
            let own = noise.normal();
            c + 0.1
                * if j == 2 {
                    shared
                } else if j == 4 {
                    -0.8 * shared + 0.6 * own
                } else {
                    own
                }
        });
        values.extend(row.collect::<Vec<_>>());
    }
    let draws = Draws { names, values, component: vec![0; 1000], chains: None };
    let mut sample = empty();
    sample.report.verdict = VerdictSummary {
        trusted: Some(true),
        sentence: "One mode was found and a single Gaussian describes it well: you can use its means and intervals."
            .into(),
        reasons: vec![],
        notes: vec![],
    };
    sample.report.elbo = ReportedEstimate { mean: -585.1312, se: 0.0123 };
    sample.report.log_evidence = ReportedEstimate { mean: -585.0921, se: 0.0098 };
    (sample.report.k_hat, sample.report.k_threshold, sample.report.ess) = (0.48, 0.7, 3720.0);
    sample.report.modes = 1;
    sample.report.components = vec![ComponentSummary { weight: 1.0, mean: centres.clone(), sd: vec![0.1; 25] }];
    sample.report.parameters = summarise(&draws);
    sample.report.model = ModelSummary {
        kind: "logistic".into(),
        summary: "german_credit.csv: 1,000 rows, 24 columns, outcome default".into(),
        rows: Some(1000),
        priors: vec!["coefficients: Normal(0, 2.5) after standardising".into(), "intercept: Normal(0, 25)".into()],
        table: None,
        coefficients: None,
    };
    sample.report.evals = Evals { points: 9_800, diagnostics: 4000, chains: 0 };
    (sample.report.iterations, sample.report.seconds) = (98, 0.61);
    sample.report.stop = StopSummary { reason: "converged".into(), converged: true };
    sample.report.config = serde_json::json!({"method": "auto", "rate": 1.0, "seed": 1, "data": "german_credit.csv"});
    let scores = |rows: usize, bend: f64| Scores {
        rows,
        nll: Some(0.4681 + bend),
        accuracy: Some(0.781 - bend),
        brier: Some(0.1534 + bend / 3.0),
        ece: Some(0.0214 + bend),
        auroc: Some(0.8312 - bend),
        calibration: (0..10)
            .map(|i| f64::from(i) / 10.0 + 0.05)
            .map(|p| (p, (p + bend * (9.0 * p).sin()).clamp(0.0, 1.0), (400.0 * p * (1.0 - p)) as usize + 10))
            .collect(),
        roc: (0..=100).map(|i| f64::from(i) / 100.0).map(|x| (x, x.powf(0.25 + 2.0 * bend))).collect(),
        ..Scores::default()
    };
    (sample.report.train, sample.report.test) = (Some(scores(800, 0.01)), Some(scores(200, 0.05)));
    sample.report.loo =
        Some(Loo { elpd: -507.31, se: 14.92, p_loo: 23.84, bad_rows: 0, max_k_hat: 0.41, influential: vec![] });
    sample.trace = climb(&mut noise, -120_000.0, -585.13, 0.02, 98, |_| 1);
    sample.draws = draws;
    sample
}

/// A linear regression that ran out of evaluations, with a large k-hat, thirty components and hostile names.
pub fn bad() -> Sample {
    let mut noise = SampleNoise(23);
    let hostile = "<script>alert('x')</script> & \"quoted\" \u{202E}backwards";
    let names: Vec<String> = [
        hostile,
        "a very long column name that somebody exported from a spreadsheet without thinking about it",
        "größe [µm]",
        "σ",
    ]
    .map(String::from)
    .to_vec();
    let (mut values, mut component) = (vec![], vec![]);
    for _ in 0..1500 {
        let k = (30.0 * noise.uniform().powi(3)) as usize;
        let t = 0.4 * (k as f64 - 8.0);
        let a = t + 0.3 * noise.normal();
        values.extend([
            a,
            0.12 * a * a + 0.3 * noise.normal(),
            1e6 + 2e4 * noise.normal(),
            (0.1 * a + noise.normal()).exp() * 1e-5,
        ]);
        component.push(k);
    }
    let draws = Draws { names, values, component, chains: None };
    let mut sample = empty();
    sample.report.verdict = VerdictSummary {
        trusted: Some(false),
        sentence: "The fit has not converged and its tails are too light for the posterior: do not use these numbers yet.".into(),
        reasons: vec![
            "k-hat is 1.13, above 0.70: some regions of the posterior are missed. Try --components auto or more evaluations.".into(),
            "The ELBO was still rising when evaluations ran out: try --max-evals 200000.".into(),
        ],
        notes: vec!["Outcome <default> & \"rate\" were standardised.".into()],
    };
    sample.report.elbo = ReportedEstimate { mean: -1423.8, se: 2.31 };
    sample.report.log_evidence = ReportedEstimate { mean: -1391.2, se: 6.4 };
    (sample.report.k_hat, sample.report.k_threshold, sample.report.ess) = (1.13, 0.7, 41.3);
    sample.report.modes = 2;
    sample.report.components = (0..30)
        .map(|k| ComponentSummary { weight: 0.28 * 0.72_f64.powi(k), mean: vec![f64::from(k); 4], sd: vec![1.0; 4] })
        .collect();
    sample.report.parameters = summarise(&draws);
    sample.report.model = ModelSummary {
        kind: "linear".into(),
        summary: "C:\\data\\<b>my</b> table.csv: 512 rows, 3 columns".into(),
        rows: Some(512),
        priors: vec!["noise sd: half-Cauchy(5)".into()],
        table: None,
        coefficients: None,
    };
    sample.report.evals = Evals { points: 100_000, diagnostics: 4000, chains: 0 };
    (sample.report.iterations, sample.report.seconds) = (2500, 161.0);
    sample.report.stop = StopSummary { reason: "evaluation limit reached".into(), converged: false };
    let residuals = (0..300).map(|_| (20.0 + 8.0 * noise.normal(), noise.normal())).collect();
    sample.report.train =
        Some(Scores { rows: 512, nll: Some(2.31), rmse: Some(4.213), residuals, ..Scores::default() });
    sample.report.loo =
        Some(Loo { elpd: -1201.4, se: 33.1, p_loo: 19.2, bad_rows: 17, max_k_hat: 1.42, influential: vec![] });
    let bars: Vec<f64> = (0..24).map(|i| (-0.02 * (f64::from(i) - 12.0).powi(2)).exp() / 12.5).collect();
    let check = |statistic: &str, observed, p| ModelCheck {
        statistic: statistic.into(),
        observed,
        mean: 20.1,
        q05: 18.0,
        q95: 22.2,
        p,
        range: (17.0, 23.0),
        bars: bars.clone(),
    };
    sample.report.model_checks = vec![check("mean", 20.3, 0.46), check("largest residual", 41.0, 0.0)];
    sample.report.model_notes = vec!["the largest residual is 41.0 times the noise: look at <that> row".into()];
    sample.trace = climb(&mut noise, -1700.0, -1418.0, 9.0, 2500, |t| 1 + (29.0 * t) as usize);
    sample.trace[5].elbo = f64::NAN;
    sample.draws = draws;
    sample
}
