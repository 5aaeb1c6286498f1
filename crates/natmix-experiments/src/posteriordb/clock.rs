//! Wall time, and the processor time of all threads.

use std::time::Instant;

/// Measures from its creation on.
pub struct Clock {
    began: Instant,
    processor: Option<f64>,
}

impl Clock {
    pub fn start() -> Self {
        Self { began: Instant::now(), processor: processor_seconds() }
    }

    /// When it was started.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Seconds of wall time, and of processor time where the system tells.
    pub fn read(&self) -> (f64, Option<f64>) {
        let processor = self.processor.and_then(|before| Some(processor_seconds()? - before));
        (self.began.elapsed().as_secs_f64(), processor)
    }
}

#[cfg(unix)]
fn processor_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64)
}

#[cfg(not(unix))]
fn processor_seconds() -> Option<f64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_sleep_does_not() {
        let clock = Clock::start();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (wall, _) = clock.read();
        assert!(wall >= 0.05);
        while clock.read().1.unwrap() < 0.02 {}
    }
}
