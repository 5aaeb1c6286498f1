//! Training a network takes at most six floats per weight and component beyond the data, as counted by a custom allocator.

use natmix::matrix::{Transpose, product};
use natmix_nets::train::{TrainConfig, Trainer, with_threads};
use natmix_nets::{Activation, Examples, Network, NetworkLikelihood};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct CountingAllocator;

// The system's allocator with a counter in front.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Peak of the bytes allocated by `work`, and its result.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let found = work();
    (PEAK.load(Relaxed) - before, found)
}

/// Makes the matrix library allocate its work space, which it keeps: 4 MiB per thread for any network.
fn warm_up(threads: usize) -> usize {
    let before = LIVE.load(Relaxed);
    rayon::broadcast(|_| {
        let (rows, inputs, units) = (128, 784, 100);
        let (x, w) = (vec![0.5_f32; rows * inputs], vec![0.5_f32; inputs * units]);
        product(&mut vec![0.0; rows * units], false, 1.0, &x, Transpose::Yes, &w, (rows, inputs, units));
    });
    (LIVE.load(Relaxed) - before) / threads
}

#[test]
fn six_floats_per_weight_and_component() {
    let network =
        Network::new(784, &[400, 400], Activation::Relu, NetworkLikelihood::Categorical { classes: 10 }).unwrap();
    let rows = 640;
    let x = (0..rows * 784).map(|i| (0.37 * i as f32).sin()).collect();
    let y = (0..rows).map(|r| (r % 10) as f32).collect();
    let data = Examples::new(x, 784, y).unwrap();
    let threads = 2;
    with_threads(threads, || {
        println!("work space of the matrix library: {} bytes per thread", warm_up(threads));
        for components in [1, 5] {
            let config =
                TrainConfig { components, batch: 128, epochs: 1, ..TrainConfig::for_data(&network, data.rows()) };
            let floats = |bytes: usize| bytes as f64 / (4 * components * network.weights()) as f64;
            let before = LIVE.load(Relaxed);
            let (training, trainer) = peak(|| {
                let mut trainer = Trainer::new(&network, &data, config).unwrap();
                trainer.epoch().unwrap();
                trainer
            });
            let held = LIVE.load(Relaxed) - before;
            let (more, mixture) = peak(|| trainer.into_mixture().unwrap());
            let (training, end) = (floats(training), floats(held + more));
            println!("K = {components}: {training:.2} floats in training, {end:.2} during conversion to a mixture");
            // Mean, precision, velocity and draw are 4 already.
            assert!((4.0..6.0).contains(&training), "K = {components}: {training}");
            // Mean, precision and its root in double precision take 6 floats already: everything else must be freed.
            assert!((0.0..6.01).contains(&end), "K = {components}: {end}");
            assert_eq!(mixture.len(), components);
        }
    })
    .unwrap();
}
