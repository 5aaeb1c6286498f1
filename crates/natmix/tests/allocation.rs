//! After warm-up an iteration allocates nothing, as a counting allocator shows.

use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::family::CovarianceKind;
use natmix::observe::{Iteration, Observer};
use natmix::{Config, Error, Fit, Method, Parts};
use natmix_models::glm::{Glm, Likelihood};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;

struct Counting;

thread_local! {
    // Of this thread alone: the test harness has threads of its own. With one worker, all the work is on it.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// The system's allocator with a counter in front.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations up to the end of each iteration.
struct Count(Vec<u64>);

impl Observer for Count {
    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.0.push(ALLOCATIONS.with(Cell::get));
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn no_iteration_allocates_after_warm_up() {
    let (rows, d) = (100, 6);
    let wave = |i: usize| (i as f64 * 1.37).sin();
    let x: Vec<f64> = (0..rows * d).map(wave).collect();
    let y: Vec<f64> = (0..rows).map(|r| f64::from(u8::from(wave(r * 7) > 0.0))).collect();
    let model = Glm::new(Likelihood::Bernoulli, &x, d, y, &[3.0]).unwrap();
    let target = natmix::family::Mixture::single(natmix::family::Gaussian::isotropic(vec![1.0; 40], 2.0));
    let plans = [Plan::Independent, Plan::Antithetic, Plan::Orthogonal, Plan::Cubature];
    let mut cases = Vec::new();
    for method in Method::ALL.map(|entry| entry.0) {
        for shape in [CovarianceKind::Diag, CovarianceKind::Full] {
            for components in [1, 3] {
                for draws in plans {
                    let base = Config::new(method);
                    // The automatic mixture has draws of its own.
                    let own = method == Method::Auto && draws != Plan::Independent;
                    if own || method == Method::Vogn && shape == CovarianceKind::Full {
                        continue;
                    }
                    let minibatch = (method == Method::Vogn).then_some(32);
                    cases.push(Config {
                        covariance: shape,
                        ..base.with_components(components).with_parts(|parts| Parts {
                            draws,
                            minibatch,
                            draws_per_component: 26,
                            ..parts
                        })
                    });
                }
            }
        }
    }
    for case in cases {
        // Under mixture draws a component that draws more points than ever before may need larger buffers: with this seed the
        // largest numbers come early.
        let config =
            Config { tolerance: 1e-300, max_iterations: 120, diagnostic_draws: 0, threads: 1, seed: 0, ..case };
        let mut count = Count(Vec::with_capacity(200));
        Fit::new(&model, config.clone()).observe(&mut count).run().unwrap();
        let late = count.0[119] - count.0[79];
        assert_eq!(late, 0, "{:?}", config);
    }
    // Above the dimension where matrix products and factorisations come from the library.
    for shape in [CovarianceKind::Diag, CovarianceKind::Full] {
        for (estimator, method) in [(Estimator::Stein, Method::ComponentDraws), (Estimator::Exact, Method::Von)] {
            let config = Config {
                covariance: shape,
                tolerance: 1e-300,
                max_iterations: 60,
                diagnostic_draws: 0,
                threads: 1,
                ..Parts { components: 2, estimator, ..Parts::new(method) }.into()
            };
            let mut count = Count(Vec::with_capacity(200));
            Fit::new(&target, config).observe(&mut count).run().unwrap();
            assert_eq!(count.0[59] - count.0[39], 0, "d = 40 {shape:?} {estimator:?}");
        }
    }
}
