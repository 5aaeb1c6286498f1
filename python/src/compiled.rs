//! A compiled function as a target: called from any thread, without the interpreter.
//!
//! The signature is the one that nutpie uses, so functions that PyMC and numba compile for it can be used here too:
//!
//! ```c
//! int64_t logp(size_t dim, const double *z, double *grad, double *value, void *user_data);
//! ```
//!
//! Zero is success; a positive number means that the density cannot be evaluated at this point, a negative one that the run
//! cannot continue.

use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use pyo3::prelude::*;
use std::ffi::c_void;

/// The signature of a compiled log density.
type LogP = unsafe extern "C" fn(usize, *const f64, *mut f64, *mut f64, *const c_void) -> i64;

/// A compiled log density.
#[derive(Debug)]
pub struct Compiled {
    function: LogP,
    user_data: usize,
    /// Owns the machine code and the data behind the addresses.
    _owner: Py<PyAny>,
    dim: usize,
    names: Vec<String>,
}

impl Compiled {
    /// From the address of a function with the signature above. `owner` keeps the code and the data alive.
    ///
    /// # Safety
    /// `address` must be that of a function with the signature of the module page, which may be called from several threads
    /// at once, with `user_data` as its last argument, as long as `owner` lives.
    #[allow(unsafe_code)]
    pub unsafe fn new(address: usize, user_data: usize, owner: Py<PyAny>, dim: usize, names: Vec<String>) -> Self {
        // SAFETY: the caller promises that the address is that of such a function; a function pointer has the size of an
        // address on every platform that natmix builds for.
        let function = unsafe { std::mem::transmute::<usize, LogP>(address) };
        Self { function, user_data, _owner: owner, dim, names }
    }

    #[allow(unsafe_code)]
    fn at(&self, z: &[f64], grad: &mut [f64]) -> Result<f64, TargetError> {
        assert!(z.len() == self.dim && grad.len() == self.dim);
        let mut value = f64::NAN;
        // SAFETY: both slices hold `dim` numbers, as asserted; the rest is what the caller of `new` promised.
        let code = unsafe {
            (self.function)(self.dim, z.as_ptr(), grad.as_mut_ptr(), &mut value, self.user_data as *const c_void)
        };
        match code {
            0 => Ok(value),
            code if code > 0 => Ok(f64::NAN),
            code => Err(format!("the compiled log density failed with code {code}").into()),
        }
    }
}

impl Target for Compiled {
    fn dim(&self) -> usize {
        self.dim
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let EvalOut { log_p, mut grad, .. } = out;
        let mut spare = scratch.take(self.dim);
        for (i, (z, log_p)) in z.iter().zip(log_p).enumerate() {
            let place = match &mut grad {
                Some(grad) => &mut grad[i * self.dim..(i + 1) * self.dim],
                None => &mut spare,
            };
            *log_p = self.at(z, place)?;
        }
        scratch.give(spare);
        Ok(())
    }

    fn parameter_names(&self) -> Vec<String> {
        self.names.clone()
    }
}
