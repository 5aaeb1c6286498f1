//! Settings of networks on the command line.

use crate::args::mlp::MlpArgs;
pub use natmix_app::settings::mlp::MlpSettings;

/// Flags win.
pub fn take(settings: &mut MlpSettings, args: &MlpArgs) {
    fn some<T: Clone>(mine: &mut Option<T>, given: &Option<T>) {
        if given.is_some() {
            mine.clone_from(given);
        }
    }
    if !args.hidden.is_empty() {
        settings.hidden = Some(args.hidden.clone());
    }
    some(&mut settings.activation, &args.activation);
    some(&mut settings.likelihood, &args.likelihood);
    some(&mut settings.epochs, &args.epochs);
    some(&mut settings.batch, &args.batch);
    some(&mut settings.ood, &args.ood);
    some(&mut settings.prior_precision, &args.prior_precision);
    some(&mut settings.first_precision, &args.first_precision);
    some(&mut settings.curvature_rate, &args.curvature_rate);
    some(&mut settings.momentum, &args.momentum);
    some(&mut settings.damping, &args.damping);
    some(&mut settings.schedule, &args.schedule);
    some(&mut settings.warm_up, &args.warm_up);
    some(&mut settings.curvature, &args.curvature);
    some(&mut settings.weight_step, &args.weight_step);
    some(&mut settings.ensemble, &args.ensemble);
    some(&mut settings.weight_decay, &args.weight_decay);
    some(&mut settings.validation, &args.validation);
    some(&mut settings.patience, &args.patience);
    some(&mut settings.score_draws, &args.score_draws);
}
