//! Arbitrary text is refused, or describes a density that can be evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix::target::log_p_at;
use natmix_models::densities::Spec;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(spec) = Spec::from_json(text) else { return };
    if spec.dim() > 1000 {
        return;
    }
    if let Ok(target) = spec.target() {
        assert_eq!(target.dim(), spec.dim());
        let _ = log_p_at(&target, &vec![0.1; spec.dim()]);
    }
});
