//! The functions of a compiled model: BridgeStan's C interface, loaded from a shared library.
//!
//! All unsafe code of the crate is here. What makes it sound: libraries are never unloaded, so their functions stay; a model
//! is destroyed once, when nothing refers to it; slices are checked to have the lengths that the model states; text is copied
//! at once; and a library that was compiled without threads is called by one thread at a time.
#![allow(unsafe_code)]

use crate::Error;
use crate::messages::{Message, Messages};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The major version of the interface.
const VERSION: i32 = 2;
/// What a model that may be called from several threads says about itself.
const THREADS: &str = "STAN_THREADS=true";

/// What models print; the interface has no place for more than one collector.
static PRINTED: Messages = Messages::new();

extern "C" fn print(text: *const c_char, length: usize) {
    if !text.is_null() && length > 0 {
        // SAFETY: the interface gives the address and the length of a text.
        let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        String::from_utf8_lossy(text).lines().for_each(|line| PRINTED.add(line));
    }
}

/// Takes what all models have printed since the last call.
pub fn take_printed() -> Vec<Message> {
    PRINTED.take()
}

#[repr(C)]
struct RawModel([u8; 0]);
#[repr(C)]
struct RawRng([u8; 0]);

type ErrorText = *mut *mut c_char;
type Density = unsafe extern "C" fn(*const RawModel, bool, bool, *const f64, *mut f64, ErrorText) -> c_int;
type Gradient = unsafe extern "C" fn(*const RawModel, bool, bool, *const f64, *mut f64, *mut f64, ErrorText) -> c_int;
type Constrain =
    unsafe extern "C" fn(*const RawModel, bool, bool, *const f64, *mut f64, *mut RawRng, ErrorText) -> c_int;
type PrintCallback = extern "C" fn(*const c_char, usize);

/// A function for each symbol.
macro_rules! functions {
    ($($field:ident = $symbol:ident: $kind:ty;)*) => {
        struct Functions { $($field: $kind,)* }

        impl Functions {
            fn of(library: &Library, file: &Path) -> Result<Self, Error> {
                Ok(Self {
                    $($field: {
                        let name = concat!(stringify!($symbol), "\0").as_bytes();
                        // SAFETY: version 2 of the interface gives the function this type.
                        let symbol = unsafe { library.get::<$kind>(name) };
                        *symbol.map_err(|_| Error::NotAModel { file: file.to_owned(), function: stringify!($symbol) })?
                    },)*
                })
            }
        }
    };
}

functions! {
    free_error = bs_free_error_msg: unsafe extern "C" fn(*mut c_char);
    construct = bs_model_construct: unsafe extern "C" fn(*const c_char, c_uint, ErrorText) -> *mut RawModel;
    destruct = bs_model_destruct: unsafe extern "C" fn(*mut RawModel);
    name = bs_name: unsafe extern "C" fn(*const RawModel) -> *const c_char;
    info = bs_model_info: unsafe extern "C" fn(*const RawModel) -> *const c_char;
    names = bs_param_names: unsafe extern "C" fn(*const RawModel, bool, bool) -> *const c_char;
    unconstrained_names = bs_param_unc_names: unsafe extern "C" fn(*const RawModel) -> *const c_char;
    count = bs_param_num: unsafe extern "C" fn(*const RawModel, bool, bool) -> c_int;
    dim = bs_param_unc_num: unsafe extern "C" fn(*const RawModel) -> c_int;
    constrain = bs_param_constrain: Constrain;
    unconstrain = bs_param_unconstrain: unsafe extern "C" fn(*const RawModel, *const f64, *mut f64, ErrorText) -> c_int;
    unconstrain_json = bs_param_unconstrain_json:
        unsafe extern "C" fn(*const RawModel, *const c_char, *mut f64, ErrorText) -> c_int;
    density = bs_log_density: Density;
    gradient = bs_log_density_gradient: Gradient;
    rng = bs_rng_construct: unsafe extern "C" fn(c_uint, ErrorText) -> *mut RawRng;
    drop_rng = bs_rng_destruct: unsafe extern "C" fn(*mut RawRng);
    print_to = bs_set_print_callback: unsafe extern "C" fn(PrintCallback, ErrorText) -> c_int;
}

/// A compiled model without data.
pub struct StanLibrary {
    file: PathBuf,
    functions: Functions,
    /// Never unloaded: threads may have storage of its own in it.
    _library: ManuallyDrop<Library>,
}

impl std::fmt::Debug for StanLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StanLibrary").field("file", &self.file).finish_non_exhaustive()
    }
}

impl StanLibrary {
    /// Loads a library. Loading runs code in it: load only what you trust.
    pub fn load(file: &Path) -> Result<Arc<Self>, Error> {
        // A name without a folder would be looked up among the libraries of the system.
        let path = file.canonicalize().map_err(|source| Error::Read { file: file.to_owned(), source })?;
        // SAFETY: a model's library has no start-up code beyond that of the C++ library and of TBB.
        let library = unsafe { Library::new(&path) }.map_err(|error| Error::Load {
            file: file.to_owned(),
            problem: std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
        })?;
        let library = ManuallyDrop::new(library);
        let version = |name: &'static str| -> Result<i32, Error> {
            // SAFETY: every version of the interface that has this symbol has it as an integer.
            let symbol = unsafe { library.get::<*const c_int>(name.as_bytes()) };
            let at = symbol.map_err(|_| Error::NotAModel { file: file.to_owned(), function: name })?;
            // SAFETY: the address of a static variable in a library that is never unloaded.
            Ok(unsafe { **at })
        };
        let found = [version("bs_major_version")?, version("bs_minor_version")?, version("bs_patch_version")?];
        if found[0] != VERSION {
            return Err(Error::Version { file: file.to_owned(), found, expected: VERSION });
        }
        let functions = Functions::of(&library, file)?;
        // SAFETY: the callback is a function of this program.
        unsafe { (functions.print_to)(print, null_mut()) };
        Ok(Arc::new(Self { file: file.to_owned(), functions, _library: library }))
    }

    /// Where it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Takes the text of an error.
    fn said(&self, error: *mut c_char) -> String {
        if error.is_null() {
            return "it gives no reason".to_owned();
        }
        // SAFETY: the interface leaves a text that ends with zero, which is freed once.
        unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.functions.free_error)(error);
            // A message may have several lines, and begins with a word that says nothing.
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            text.strip_prefix("Exception: ").unwrap_or(&text).to_owned()
        }
    }

    /// Success or the text of the error.
    fn check(&self, code: c_int, error: *mut c_char) -> Result<(), String> {
        if code == 0 { Ok(()) } else { Err(self.said(error)) }
    }
}

/// A model with its data.
pub struct LoadedModel {
    library: Arc<StanLibrary>,
    raw: NonNull<RawModel>,
    /// If only one thread may call it.
    lock: Option<Mutex<()>>,
    dim: usize,
    /// By whether transformed parameters and generated quantities are included.
    counts: [[usize; 2]; 2],
}

// SAFETY: a model is not changed after construction, and where its functions are not safe for threads the lock is held.
unsafe impl Send for LoadedModel {}
// SAFETY: as above.
unsafe impl Sync for LoadedModel {}

impl Drop for LoadedModel {
    fn drop(&mut self) {
        // SAFETY: constructed by the same library, and destroyed once.
        unsafe { (self.library.functions.destruct)(self.raw.as_ptr()) };
    }
}

/// A generator of random numbers for generated quantities.
pub struct StanRng {
    library: Arc<StanLibrary>,
    raw: NonNull<RawRng>,
}

// SAFETY: it has no ties to the thread that made it.
unsafe impl Send for StanRng {}

impl Drop for StanRng {
    fn drop(&mut self) {
        // SAFETY: constructed by the same library, and destroyed once.
        unsafe { (self.library.functions.drop_rng)(self.raw.as_ptr()) };
    }
}

impl LoadedModel {
    /// Gives data, a JSON document or nothing, to a model. The seed is for random numbers in transformed data.
    pub fn new(library: Arc<StanLibrary>, data: &str, seed: u32) -> Result<Self, String> {
        let data = CString::new(data).map_err(|_| "they contain a character of code zero".to_owned())?;
        let mut error = null_mut();
        let functions = &library.functions;
        // SAFETY: text that ends with zero, and a place for an error.
        let raw = unsafe { (functions.construct)(data.as_ptr(), seed, &mut error) };
        let Some(raw) = NonNull::new(raw) else { return Err(library.said(error)) };
        // SAFETY: a model that was just made.
        let (dim, count) = unsafe {
            let count = |tp, gq| usize::try_from((functions.count)(raw.as_ptr(), tp, gq)).unwrap_or(0);
            let counts = [[count(false, false), count(false, true)], [count(true, false), count(true, true)]];
            (usize::try_from((functions.dim)(raw.as_ptr())).unwrap_or(0), counts)
        };
        let mut model = Self { library, raw, lock: None, dim, counts: count };
        if !model.info().contains(THREADS) {
            model.lock = Some(Mutex::new(()));
        }
        Ok(model)
    }

    fn one_at_a_time(&self) -> Option<MutexGuard<'_, ()>> {
        self.lock.as_ref().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn text(&self, text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the interface returns text that ends with zero and lives as long as the model.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Its library.
    pub fn library(&self) -> &Arc<StanLibrary> {
        &self.library
    }

    /// Its name.
    pub fn name(&self) -> String {
        // SAFETY: the model lives.
        self.text(unsafe { (self.library.functions.name)(self.raw.as_ptr()) })
    }

    /// How it was compiled.
    pub fn info(&self) -> String {
        // SAFETY: the model lives.
        self.text(unsafe { (self.library.functions.info)(self.raw.as_ptr()) })
    }

    /// Names of its values, as `theta.1`: parameters and, if wanted, transformed parameters and generated quantities.
    pub fn names(&self, transformed: bool, generated: bool) -> Vec<String> {
        // SAFETY: the model lives.
        let names = self.text(unsafe { (self.library.functions.names)(self.raw.as_ptr(), transformed, generated) });
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Names of its unconstrained coordinates.
    pub fn unconstrained_names(&self) -> Vec<String> {
        // SAFETY: the model lives.
        let names = self.text(unsafe { (self.library.functions.unconstrained_names)(self.raw.as_ptr()) });
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Number of unconstrained coordinates.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of values.
    pub fn count(&self, transformed: bool, generated: bool) -> usize {
        self.counts[usize::from(transformed)][usize::from(generated)]
    }

    /// The log density, with its Jacobian and all constants; and its gradient, if wanted.
    pub fn log_density(&self, z: &[f64], gradient: Option<&mut [f64]>) -> Result<f64, String> {
        assert!(z.len() == self.dim && gradient.as_ref().is_none_or(|grad| grad.len() == self.dim));
        let _guard = self.one_at_a_time();
        let (mut value, mut error) = (f64::NAN, null_mut());
        let (functions, model) = (&self.library.functions, self.raw.as_ptr());
        // SAFETY: as many numbers as the model has coordinates, and places for the results.
        let code = unsafe {
            match gradient {
                None => (functions.density)(model, false, true, z.as_ptr(), &mut value, &mut error),
                Some(grad) => {
                    (functions.gradient)(model, false, true, z.as_ptr(), &mut value, grad.as_mut_ptr(), &mut error)
                }
            }
        };
        self.library.check(code, error).map(|()| value)
    }

    /// The values at a point: parameters and, if wanted, transformed parameters; and generated quantities with `rng`.
    pub fn constrain(
        &self,
        z: &[f64],
        transformed: bool,
        rng: Option<&mut StanRng>,
        values: &mut [f64],
    ) -> Result<(), String> {
        assert!(z.len() == self.dim && values.len() == self.count(transformed, rng.is_some()));
        assert!(rng.as_ref().is_none_or(|rng| Arc::ptr_eq(&rng.library, &self.library)));
        let _guard = self.one_at_a_time();
        let mut error = null_mut();
        let generated = rng.is_some();
        let rng = rng.map_or(null_mut(), |rng| rng.raw.as_ptr());
        let (model, to) = (self.raw.as_ptr(), values.as_mut_ptr());
        // SAFETY: as many numbers as the model has coordinates and values, and a generator of the same library.
        let code = unsafe {
            (self.library.functions.constrain)(model, transformed, generated, z.as_ptr(), to, rng, &mut error)
        };
        self.library.check(code, error)
    }

    /// The point with these parameters.
    pub fn unconstrain(&self, parameters: &[f64]) -> Result<Vec<f64>, String> {
        assert_eq!(parameters.len(), self.count(false, false));
        let _guard = self.one_at_a_time();
        let (mut z, mut error) = (vec![f64::NAN; self.dim], null_mut());
        let model = self.raw.as_ptr();
        // SAFETY: as many numbers as the model has parameters and coordinates.
        let code =
            unsafe { (self.library.functions.unconstrain)(model, parameters.as_ptr(), z.as_mut_ptr(), &mut error) };
        self.library.check(code, error).map(|()| z)
    }

    /// The point with the parameters in a JSON document.
    pub fn unconstrain_json(&self, json: &str) -> Result<Vec<f64>, String> {
        let json = CString::new(json).map_err(|_| "they contain a character of code zero".to_owned())?;
        let _guard = self.one_at_a_time();
        let (mut z, mut error) = (vec![f64::NAN; self.dim], null_mut());
        let model = self.raw.as_ptr();
        // SAFETY: text that ends with zero, and as many numbers as the model has coordinates.
        let code =
            unsafe { (self.library.functions.unconstrain_json)(model, json.as_ptr(), z.as_mut_ptr(), &mut error) };
        self.library.check(code, error).map(|()| z)
    }

    /// A generator of random numbers.
    pub fn rng(&self, seed: u32) -> Result<StanRng, String> {
        let mut error = null_mut();
        // SAFETY: a place for an error.
        let raw = unsafe { (self.library.functions.rng)(seed, &mut error) };
        match NonNull::new(raw) {
            Some(raw) => Ok(StanRng { library: self.library.clone(), raw }),
            None => Err(self.library.said(error)),
        }
    }
}
