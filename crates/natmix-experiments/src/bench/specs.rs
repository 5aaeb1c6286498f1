//! The analytic targets of the benchmark, as JSON, built into the program: their files are in `targets/` of this
//! package.

macro_rules! specs {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../targets/", $name, ".json")))),*]
    };
}

/// Name and description of every target.
const SPECS: &[(&str, &str)] = specs![
    "double_banana",
    "far_mode",
    "funnel10",
    "gmm100",
    "gmm20",
    "gmm300_diag",
    "mog40_2",
    "mos10_50",
    "planar_robot_4",
    "star",
    "stm20",
    "unequal",
];

/// The description of the target `name`, if it is an analytic one.
pub fn built_in(name: &str) -> Option<&'static str> {
    SPECS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix_app::problem::Problem;

    #[test]
    fn every_target_is_a_density() {
        for (name, text) in SPECS {
            assert!(Problem::density(text, name).is_ok(), "{name}");
        }
        assert!(built_in("german_credit").is_none());
    }
}
