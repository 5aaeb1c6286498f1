//! Arbitrary bytes are refused, or make a posterior that can be used and saved again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix::save::read_posterior_bytes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(posterior) = read_posterior_bytes(bytes) {
        let _ = posterior.mixture.log_density(posterior.mixture.components()[0].mean());
        let again = posterior.to_bytes().and_then(|bytes| read_posterior_bytes(&bytes));
        assert_eq!(again.expect("what was read can be written and read again"), posterior);
    }
});
