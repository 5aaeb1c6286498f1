//! The targets: families of at least four, about half of each in either half.

use super::densities::{
    BananaPairs, CorrelatedNormal, GroupData, HierarchicalNormal, JointStudent, LaplaceProduct, LogGammaProduct,
    NealFunnel, ShellDensity, StudentProduct, WidthMixture,
};
use super::faulty::{GradientChange, ImproperDensity};
use super::regressions::SimulatedRegression;
use super::target::TargetHalf::{Choose, Report};
use super::target::{BatteryTarget, TargetHalf};
use natmix::config::OrAuto;
use natmix_models::OutcomeKind::{Linear, Logistic, Poisson, Softmax};

/// All targets, family by family.
pub fn targets() -> Vec<BatteryTarget> {
    let families = [
        funnels(),
        students(),
        joint_students(),
        log_gammas(),
        bananas(),
        rings(),
        laplaces(),
        spikes(),
        mixtures(),
        gaussians(),
        hierarchical(),
        many_groups(),
        regressions(),
        right_gradients(),
        wrong_gradients(),
        improper(),
    ];
    families.into_iter().flatten().collect()
}

fn funnels() -> Vec<BatteryTarget> {
    let funnel = |name, half, dim, sd0| BatteryTarget::exact(name, "funnels", half, 1.0, NealFunnel { dim, sd0 });
    vec![
        funnel("funnel-2-sd1", Choose, 2, 1.0),
        funnel("funnel-2-sd3", Report, 2, 3.0),
        funnel("funnel-3-sd1.5", Report, 3, 1.5),
        funnel("funnel-5-sd2", Choose, 5, 2.0),
        funnel("funnel-10-sd1", Report, 10, 1.0),
        funnel("funnel-10-sd3", Choose, 10, 3.0),
        funnel("funnel-20-sd1", Choose, 20, 1.0),
        funnel("funnel-20-sd2", Report, 20, 2.0),
    ]
}

fn students() -> Vec<BatteryTarget> {
    let product =
        |name, half, dim, degrees| BatteryTarget::exact(name, "students", half, 1.0, StudentProduct { dim, degrees });
    vec![
        product("student-1-df1", Choose, 1, 1.0),
        product("student-1-df4", Report, 1, 4.0),
        product("student-2-df2.5", Report, 2, 2.5),
        product("student-3-df7", Choose, 3, 7.0),
        product("student-5-df3", Choose, 5, 3.0),
        product("student-10-df2", Report, 10, 2.0),
        product("student-10-df5", Choose, 10, 5.0),
        product("student-30-df10", Report, 30, 10.0),
    ]
}

fn joint_students() -> Vec<BatteryTarget> {
    let joint = |name, half, dim, degrees, correlation| {
        BatteryTarget::exact(name, "joint-students", half, 1.0, JointStudent { dim, degrees, correlation })
    };
    vec![
        joint("joint-student-2-df1", Report, 2, 1.0, 0.5),
        joint("joint-student-3-df2", Choose, 3, 2.0, 0.8),
        joint("joint-student-5-df3", Report, 5, 3.0, 0.5),
        joint("joint-student-8-df8", Choose, 8, 8.0, 0.9),
        joint("joint-student-10-df5", Choose, 10, 5.0, 0.3),
        joint("joint-student-20-df10", Report, 20, 10.0, 0.7),
        joint("joint-student-30-df4", Choose, 30, 4.0, 0.5),
    ]
}

fn log_gammas() -> Vec<BatteryTarget> {
    let product = |name, half, shapes: &[f64]| {
        BatteryTarget::exact(name, "log-gammas", half, 1.0, LogGammaProduct { shapes: shapes.to_vec() })
    };
    vec![
        product("log-gamma-1-0.5", Choose, &[0.5]),
        product("log-gamma-1-2", Report, &[2.0]),
        product("log-gamma-2", Report, &[0.3, 1.0]),
        product("log-gamma-5", Choose, &[0.5, 1.0, 2.0, 4.0, 8.0]),
        product("log-gamma-10", Choose, &[1.0; 10]),
        product("log-gamma-20", Report, &[1.5; 20]),
    ]
}

fn bananas() -> Vec<BatteryTarget> {
    let banana = |name, half, pairs, bend, spread, width, extra| {
        let density = BananaPairs { pairs, bend, spread, width, extra };
        BatteryTarget::exact(name, "bananas", half, 1.0, density)
    };
    vec![
        banana("banana-2-mild", Choose, 1, 0.3, 1.0, 1.0, 0),
        banana("banana-2-strong", Report, 1, 1.0, 2.0, 0.5, 0),
        banana("banana-2-thin", Choose, 1, 0.5, 2.0, 0.2, 0),
        banana("banana-5", Report, 1, 0.5, 2.0, 1.0, 3),
        banana("banana-6-pairs", Report, 3, 0.5, 1.0, 0.5, 0),
        banana("banana-10", Choose, 2, 0.3, 2.0, 0.7, 6),
    ]
}

fn rings() -> Vec<BatteryTarget> {
    let ring = |name, half, start_sd, shell, radius, width, extra| {
        BatteryTarget::exact(name, "rings", half, start_sd, ShellDensity::new(shell, radius, width, extra))
    };
    vec![
        ring("ring-2-wide", Choose, 2.0, 2, 2.0, 0.5, 0),
        ring("ring-2-thin", Report, 3.0, 2, 4.0, 0.2, 0),
        ring("ring-5", Choose, 3.0, 2, 3.0, 0.4, 3),
        ring("shell-3", Report, 3.0, 3, 3.0, 0.4, 0),
    ]
}

fn laplaces() -> Vec<BatteryTarget> {
    let product =
        |name, half, scales: Vec<f64>| BatteryTarget::exact(name, "laplaces", half, 1.0, LaplaceProduct { scales });
    vec![
        product("laplace-1", Report, vec![1.0]),
        product("laplace-2", Choose, vec![0.3, 3.0]),
        product("laplace-5", Report, vec![1.0; 5]),
        product("laplace-20", Choose, vec![1.0; 20]),
    ]
}

fn spikes() -> Vec<BatteryTarget> {
    let spike = |name, half, dim, weight, width, offset| {
        let density = WidthMixture::spike(dim, weight, width, offset);
        // One that lies apart from the middle of the rest is a mode of its own, with a basin.
        match offset >= 1.0 {
            true => BatteryTarget::mixture(name, "spikes", half, 2.0, density),
            false => BatteryTarget::exact(name, "spikes", half, 2.0, density),
        }
    };
    vec![
        spike("spike-1", Choose, 1, 0.5, 0.05, 0.0),
        spike("spike-1-side", Report, 1, 0.3, 0.02, 1.5),
        spike("spike-2", Report, 2, 0.5, 0.1, 0.0),
        spike("spike-2-small", Choose, 2, 0.1, 0.03, 1.0),
        spike("spike-5", Choose, 5, 0.5, 0.2, 0.5),
        spike("spike-10", Report, 10, 0.5, 0.3, 0.0),
    ]
}

fn mixtures() -> Vec<BatteryTarget> {
    let mixture = |name, half, dim, count, widths, seed| {
        BatteryTarget::mixture(name, "mixtures", half, 4.0, WidthMixture::simulated(dim, count, widths, seed))
    };
    vec![
        mixture("mixture-2-of-3", Choose, 2, 3, (0.3, 1.0), 1),
        mixture("mixture-2-of-8", Report, 2, 8, (0.1, 0.5), 2),
        mixture("mixture-5-of-3", Report, 5, 3, (0.6, 1.2), 3),
        mixture("mixture-5-of-5", Choose, 5, 5, (0.7, 1.2), 4),
        mixture("mixture-10-of-3", Choose, 10, 3, (0.9, 1.2), 5),
        mixture("mixture-10-of-5", Report, 10, 5, (0.95, 1.15), 6),
        mixture("mixture-20-of-3", Report, 20, 3, (0.95, 1.1), 7),
        mixture("mixture-20-of-5", Choose, 20, 5, (0.97, 1.07), 8),
        mixture("mixture-5-narrow", Choose, 5, 4, (0.25, 1.5), 9),
        mixture("mixture-10-narrow", Report, 10, 3, (0.6, 1.4), 10),
        mixture("mixture-10-various", Choose, 10, 4, (0.7, 1.3), 11),
        mixture("mixture-20-narrow", Report, 20, 3, (0.75, 1.25), 12),
    ]
}

fn gaussians() -> Vec<BatteryTarget> {
    let normal = |name, half, dim, correlation, scales| {
        BatteryTarget::exact(name, "gaussians", half, 1.0, CorrelatedNormal::new(dim, correlation, scales))
    };
    vec![
        normal("gaussian-2-tight", Choose, 2, 0.999, (1.0, 1.0)),
        normal("gaussian-8-scales", Report, 8, 0.5, (0.01, 100.0)),
        normal("gaussian-10", Report, 10, 0.95, (1.0, 1.0)),
        normal("gaussian-30", Choose, 30, 0.9, (0.1, 10.0)),
    ]
}

fn hierarchical() -> Vec<BatteryTarget> {
    let model = |name, half, data, centred| {
        BatteryTarget::exact(name, "hierarchical", half, 1.0, HierarchicalNormal::new(data, centred))
    };
    let (schools, simulated) = (GroupData::schools, GroupData::simulated);
    vec![
        model("schools-centred", Choose, schools(), true),
        model("schools-non-centred", Report, schools(), false),
        model("groups-8-centred", Report, simulated(8, 2.0, 1.0, 1), true),
        model("groups-8-non-centred", Choose, simulated(8, 2.0, 1.0, 1), false),
        model("groups-30-weak-centred", Choose, simulated(30, 1.0, 2.0, 2), true),
        model("groups-30-weak-non-centred", Report, simulated(30, 1.0, 2.0, 2), false),
        model("groups-30-strong-centred", Report, simulated(30, 3.0, 0.5, 3), true),
        model("groups-30-strong-non-centred", Choose, simulated(30, 3.0, 0.5, 3), false),
    ]
}

/// The same with as many groups as people have.
fn many_groups() -> Vec<BatteryTarget> {
    let model = |name, half, data, centred| {
        BatteryTarget::exact(name, "many-groups", half, 1.0, HierarchicalNormal::new(data, centred))
    };
    let (strong, weak) = (GroupData::simulated(100, 2.0, 1.0, 4), GroupData::simulated(300, 1.0, 2.0, 5));
    vec![
        model("groups-100-centred", Report, strong.clone(), true),
        model("groups-100-non-centred", Choose, strong, false),
        model("groups-300-centred", Choose, weak.clone(), true),
        model("groups-300-non-centred", Report, weak, false),
    ]
}

fn regressions() -> Vec<BatteryTarget> {
    let regression =
        |kind, rows, columns, classes, effect, seed| SimulatedRegression { kind, rows, columns, classes, effect, seed };
    // The same table with one component and with an automatic number of them.
    let both = |names: [&'static str; 2], half: TargetHalf, regression: SimulatedRegression| {
        let [one, auto] = names;
        [
            BatteryTarget::regression(one, half, OrAuto::Is(1), regression),
            BatteryTarget::regression(auto, half, OrAuto::Auto, regression),
        ]
    };
    let pairs = [
        both(["logistic-4-one", "logistic-4-auto"], Choose, regression(Logistic, 40, 3, 0, 1.0, 1)),
        both(["logistic-12-one", "logistic-12-auto"], Report, regression(Logistic, 150, 11, 0, 0.7, 2)),
        both(["logistic-31-one", "logistic-31-auto"], Choose, regression(Logistic, 300, 30, 0, 0.5, 3)),
        both(["poisson-4-one", "poisson-4-auto"], Report, regression(Poisson, 30, 3, 0, 0.5, 4)),
        both(["poisson-15-one", "poisson-15-auto"], Choose, regression(Poisson, 100, 14, 0, 0.3, 5)),
        both(["softmax-8-one", "softmax-8-auto"], Choose, regression(Softmax, 80, 3, 3, 1.0, 6)),
        both(["softmax-28-one", "softmax-28-auto"], Report, regression(Softmax, 180, 13, 3, 0.7, 7)),
        both(["linear-5-one", "linear-5-auto"], Report, regression(Linear, 15, 3, 0, 1.0, 8)),
        both(["linear-22-one", "linear-22-auto"], Choose, regression(Linear, 60, 20, 0, 1.0, 9)),
    ];
    pairs.into_iter().flatten().collect()
}

fn right_gradients() -> Vec<BatteryTarget> {
    let wide = CorrelatedNormal::new(6, 0.5, (1e-6, 1e6));
    let single = GradientChange::SinglePrecision;
    vec![
        BatteryTarget::right_gradient(
            "single-precision",
            Choose,
            vec![1.0],
            single(0.0),
            CorrelatedNormal::new(4, 0.6, (0.5, 2.0)),
        ),
        BatteryTarget::right_gradient(
            "single-precision-large",
            Report,
            vec![1.0],
            single(-3e3),
            LogGammaProduct { shapes: vec![2.0; 3] },
        ),
        BatteryTarget::right_gradient(
            "scales-1e-6-to-1e6",
            Choose,
            wide.scales.clone(),
            GradientChange::Offset(0.0),
            wide,
        ),
        BatteryTarget::right_gradient(
            "log-density-1e6",
            Report,
            vec![1.0],
            GradientChange::Offset(-1e6),
            NealFunnel { dim: 3, sd0: 1.0 },
        ),
    ]
}

fn wrong_gradients() -> Vec<BatteryTarget> {
    let normal = || CorrelatedNormal::new(4, 0.6, (1.0, 1.0));
    let scaled = || CorrelatedNormal::new(4, 0.6, (0.5, 4.0));
    let student = || StudentProduct { dim: 3, degrees: 5.0 };
    let gamma = || LogGammaProduct { shapes: vec![2.0, 5.0] };
    vec![
        BatteryTarget::wrong_gradient("gradient-half", Choose, GradientChange::Factor(0.5), student()),
        BatteryTarget::wrong_gradient("gradient-double", Report, GradientChange::Factor(2.0), scaled()),
        BatteryTarget::wrong_gradient("gradient-sign", Choose, GradientChange::Factor(-1.0), normal()),
        BatteryTarget::wrong_gradient("gradient-moved-0.15", Report, GradientChange::Moved(0.15), normal()),
        BatteryTarget::wrong_gradient("gradient-moved-1", Choose, GradientChange::Moved(1.0), student()),
        BatteryTarget::wrong_gradient("gradient-zeroed", Report, GradientChange::FactorOfOne(1, 0.0), gamma()),
        BatteryTarget::wrong_gradient("gradient-swapped", Choose, GradientChange::Swapped(0, 3), scaled()),
        BatteryTarget::wrong_gradient("gradient-one-0.8", Report, GradientChange::FactorOfOne(0, 0.8), gamma()),
    ]
}

fn improper() -> Vec<BatteryTarget> {
    vec![
        BatteryTarget::improper("improper-root-cauchy", Choose, ImproperDensity::RootCauchy),
        BatteryTarget::improper("improper-one-sided", Report, ImproperDensity::OneSidedLogistic),
        BatteryTarget::improper("improper-flat", Choose, ImproperDensity::Flat),
        BatteryTarget::improper("improper-growing", Report, ImproperDensity::Growing),
        BatteryTarget::improper("improper-ridge", Choose, ImproperDensity::Ridge),
        BatteryTarget::improper("improper-pole", Report, ImproperDensity::Pole),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn families_are_large_enough_and_evenly_split() {
        let all = targets();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|target| target.name).collect();
        assert!(all.len() >= 80 && names.len() == all.len(), "{}", all.len());
        let mut families: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for target in &all {
            families.entry(target.family).or_default()[usize::from(target.half == Report)] += 1;
        }
        for (family, [choose, report]) in families {
            assert!(choose + report >= 4 && choose.abs_diff(report) <= 2, "{family}: {choose} and {report}");
        }
    }

    #[test]
    fn every_target_can_be_made() {
        for target in targets() {
            let subject = target.subject().unwrap();
            assert!(subject.problem.target().unwrap().dim() > 0, "{}", target.name);
        }
    }
}
