//! The posteriors: which program and which data each has, and which components can be exchanged.

use super::relabel::Exchangeable;

/// A posterior: a Stan program with the data of a folder.
pub struct Posterior {
    pub name: &'static str,
    /// Name of the program, without its ending.
    pub program: &'static str,
    /// The program.
    pub code: &'static str,
    /// Folder of the data.
    pub folder: &'static str,
    /// Whether the database has a reference for it.
    pub referenced: bool,
    /// Components whose labels mean nothing.
    pub exchangeable: Option<Exchangeable>,
}

/// Posteriors with their programs: `name = program`, and `in` the folder of their data if that has another name.
macro_rules! posteriors {
    ($folder:literal, $referenced:literal: $($data:literal = $program:literal;)*) => {
        [$(Posterior {
            name: concat!($data, "-", $program),
            program: $program,
            code: include_str!(concat!("../../posteriordb/", $program, ".stan")),
            folder: concat!($folder, "/", $data, "-", $program),
            referenced: $referenced,
            exchangeable: None,
        }),*]
    };
}

/// All posteriors: first those with a reference in the database, then the harder ones.
pub fn posteriors() -> Vec<Posterior> {
    let referenced = posteriors! { "posteriordb", true:
        "arK" = "arK";
        "arma" = "arma11";
        "bball_drive_event_0" = "hmm_drive_0";
        "bball_drive_event_1" = "hmm_drive_1";
        "diamonds" = "diamonds";
        "earnings" = "earn_height";
        "earnings" = "logearn_interaction";
        "earnings" = "logearn_interaction_z";
        "earnings" = "logearn_logheight_male";
        "eight_schools" = "eight_schools_centered";
        "eight_schools" = "eight_schools_noncentered";
        "garch" = "garch11";
        "gp_pois_regr" = "gp_pois_regr";
        "gp_pois_regr" = "gp_regr";
        "hmm_example" = "hmm_example";
        "hudson_lynx_hare" = "lotka_volterra";
        "kidiq" = "kidscore_interaction";
        "kidiq" = "kidscore_momhs";
        "kidiq" = "kidscore_momhsiq";
        "kidiq_with_mom_work" = "kidscore_interaction_c";
        "kidiq_with_mom_work" = "kidscore_mom_work";
        "kilpisjarvi_mod" = "kilpisjarvi";
        "low_dim_gauss_mix" = "low_dim_gauss_mix";
        "mcycle_gp" = "accel_gp";
        "mesquite" = "logmesquite";
        "mesquite" = "logmesquite_logvas";
        "mesquite" = "logmesquite_logvolume";
        "mesquite" = "mesquite";
        "nes1972" = "nes";
        "nes2000" = "nes";
        "one_comp_mm_elim_abs" = "one_comp_mm_elim_abs";
        "sblrc" = "blr";
        "sblri" = "blr";
    };
    let harder = posteriors! { "posteriordb_noref", false:
        "GLM_Poisson_Data" = "GLM_Poisson_model";
        "dogs" = "dogs";
        "irt_2pl" = "irt_2pl";
        "low_dim_gauss_mix_collapse" = "low_dim_gauss_mix_collapse";
        "mnist_100" = "nn_rbm1bJ10";
        "nes_logit_data" = "nes_logit_model";
        "normal_2" = "normal_mixture";
        "normal_5" = "normal_mixture_k";
        "radon_mn" = "radon_hierarchical_intercept_centered";
        "radon_mn" = "radon_hierarchical_intercept_noncentered";
        "seeds_data" = "seeds_model";
        "wells_data" = "wells_dist";
        "wells_data" = "wells_interaction_c_model";
    };
    let mut all: Vec<Posterior> = referenced.into_iter().chain(harder).collect();
    for posterior in &mut all {
        match posterior.program {
            // The centred form is ours, on the same data.
            "radon_hierarchical_intercept_centered" => {
                posterior.folder = "posteriordb_noref/radon_mn-radon_hierarchical_intercept_noncentered";
            }
            "low_dim_gauss_mix_collapse" => {
                posterior.exchangeable = Some(Exchangeable::pair("mu", &["sigma"], "theta"))
            }
            "normal_mixture" => posterior.exchangeable = Some(Exchangeable::pair("mu", &[], "theta")),
            "normal_mixture_k" => posterior.exchangeable = Some(Exchangeable::all("mu", &["theta", "sigma"])),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_program_and_every_folder_of_the_data_is_listed_once() {
        let all = posteriors();
        assert_eq!((all.len(), all.iter().filter(|one| one.referenced).count()), (46, 33));
        let names: BTreeSet<&str> = all.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all.len());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("posteriordb");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".stan"))
            .collect();
        assert_eq!(files, all.iter().map(|one| format!("{}.stan", one.program)).collect());
        let Some(data) = std::env::var_os("NATMIX_DATA") else { return };
        let data = Path::new(&data);
        let mut folders = BTreeSet::new();
        for group in ["posteriordb", "posteriordb_noref"] {
            for entry in std::fs::read_dir(data.join(group)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.insert(format!("{group}/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        assert_eq!(folders, all.iter().map(|one| one.folder.to_owned()).collect());
    }
}
