//! Arbitrary text is either refused or parsed into settings that survive writing and reading, and that resolve to an
//! engine configuration or to an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix::config::About;
use natmix_app::settings::Settings;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(settings) = toml::from_str::<Settings>(text) else { return };
    let written = toml::to_string_pretty(&settings).expect("settings can be written");
    let mut again: Settings = toml::from_str(&written).expect("what was written can be read");
    // Settings that do not affect results are not written.
    again.engine.seed = settings.engine.seed;
    again.engine.threads = settings.engine.threads;
    (again.fit.out, again.fit.stream) = (settings.fit.out.clone(), settings.fit.stream);
    again.fit.trace_frames = settings.fit.trace_frames;
    // NaN does not equal itself.
    if !format!("{settings:?}").contains("NaN") {
        assert_eq!(again, settings);
    }
    for (dim, rows) in [(1, None), (500, Some(1000))] {
        let _ = settings.config(&About { dim, rows, ..About::default() });
    }
});
