//! A small model with BridgeStan's interface, written in Rust: for tests that need a library but no Stan.
//!
//! ```stan
//! data { int n; }
//! parameters { real mu; real<lower=0> s; }
//! transformed parameters { array[2] real t = {mu + s, mu - s}; }
//! model { mu ~ std_normal(); s ~ lognormal(0, 0.5); }
//! generated quantities { real y_rep = uniform_rng(0, 1); real log_lik = mu; }
//! ```
//! It rejects `mu > 4`, and every point if the data say `"nowhere": 1`. It prints the same line at every evaluation if the
//! data say `"print": 1`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::sync::Mutex;

type Print = extern "C" fn(*const c_char, usize);

#[unsafe(no_mangle)]
pub static bs_major_version: c_int = if cfg!(other_version) { 1 } else { 2 };
#[unsafe(no_mangle)]
pub static bs_minor_version: c_int = 7;
#[unsafe(no_mangle)]
pub static bs_patch_version: c_int = 0;

static PRINT: Mutex<Option<Print>> = Mutex::new(None);

pub struct Model {
    nowhere: bool,
    print: bool,
}

fn fail(error: *mut *mut c_char, text: &str) {
    if !error.is_null() {
        unsafe { *error = CString::new(text).unwrap().into_raw() };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_free_error_msg(error: *mut c_char) {
    drop(unsafe { CString::from_raw(error) });
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_model_construct(data: *const c_char, _: c_uint, error: *mut *mut c_char) -> *mut Model {
    let data = unsafe { CStr::from_ptr(data) }.to_str().unwrap();
    if !data.contains("\"n\"") {
        let text = "Exception: variable does not exist; processing stage=data initialization; variable name=n; base \
                    type=int (in 'mock.stan', line 1, column 7 to column 13)";
        fail(error, text);
        return std::ptr::null_mut();
    }
    if data.contains("\"n\": [") {
        let text = "Exception: mismatch in number dimensions declared and found in context; processing stage=data \
                    initialization; variable name=n; dims declared=(); dims found=(2) (in 'mock.stan', line 1)";
        fail(error, text);
        return std::ptr::null_mut();
    }
    Box::into_raw(Box::new(Model { nowhere: data.contains("\"nowhere\""), print: data.contains("\"print\"") }))
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_model_destruct(model: *mut Model) {
    drop(unsafe { Box::from_raw(model) });
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_name(_: *const Model) -> *const c_char {
    c"mock_model".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_model_info(_: *const Model) -> *const c_char {
    let info = if cfg!(one_thread) { c"STAN_THREADS=false" } else { c"STAN_THREADS=true" };
    info.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_names(_: *const Model, tp: bool, gq: bool) -> *const c_char {
    let names = match (tp, gq) {
        (false, false) => c"mu,s",
        (true, false) => c"mu,s,t.1,t.2",
        (false, true) => c"mu,s,y_rep,log_lik",
        (true, true) => c"mu,s,t.1,t.2,y_rep,log_lik",
    };
    names.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_unc_names(_: *const Model) -> *const c_char {
    c"mu,s".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_num(_: *const Model, tp: bool, gq: bool) -> c_int {
    2 + 2 * c_int::from(tp) + 2 * c_int::from(gq)
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_unc_num(_: *const Model) -> c_int {
    2
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_constrain(
    _: *const Model,
    tp: bool,
    gq: bool,
    z: *const f64,
    to: *mut f64,
    rng: *mut u64,
    _: *mut *mut c_char,
) -> c_int {
    let (mu, s) = unsafe { (*z, (*z.add(1)).exp()) };
    let mut values = vec![mu, s];
    if tp {
        values.extend([mu + s, mu - s]);
    }
    if gq {
        let state = unsafe { &mut *rng };
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        values.extend([(*state >> 11) as f64 / (1u64 << 53) as f64, mu]);
    }
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_unconstrain(
    _: *const Model,
    from: *const f64,
    z: *mut f64,
    error: *mut *mut c_char,
) -> c_int {
    unsafe {
        if *from.add(1) < 0.0 {
            fail(error, "Exception: s is -1, but must be greater than or equal to 0");
            return 1;
        }
        *z = *from;
        *z.add(1) = (*from.add(1)).ln();
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_param_unconstrain_json(
    model: *const Model,
    json: *const c_char,
    z: *mut f64,
    error: *mut *mut c_char,
) -> c_int {
    let json = unsafe { CStr::from_ptr(json) }.to_str().unwrap();
    let value = |name: &str| -> Option<f64> {
        let rest = json.split_once(&format!("\"{name}\":"))?.1;
        rest.split([',', '}']).next()?.trim().parse().ok()
    };
    match (value("mu"), value("s")) {
        (Some(mu), Some(s)) => bs_param_unconstrain(model, [mu, s].as_ptr(), z, error),
        _ => {
            fail(error, "Exception: variable does not exist; processing stage=parameter initialization");
            1
        }
    }
}

fn density(model: *const Model, z: *const f64, error: *mut *mut c_char) -> Result<f64, c_int> {
    let (model, mu, log_s) = unsafe { (&*model, *z, *z.add(1)) };
    if model.print {
        if let Some(print) = *PRINT.lock().unwrap() {
            let text = format!("mu is {mu} now\n");
            print(text.as_ptr().cast(), text.len());
        }
    }
    if model.nowhere || mu > 4.0 {
        fail(error, &format!("Exception: mu is {mu}, which is too much (in 'mock.stan', line 5, column 1)"));
        return Err(1);
    }
    let tau = 2.0 * std::f64::consts::PI;
    Ok(-0.5 * mu * mu - 2.0 * log_s * log_s - tau.ln() - 0.5f64.ln())
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_log_density(
    model: *const Model,
    _: bool,
    _: bool,
    z: *const f64,
    value: *mut f64,
    error: *mut *mut c_char,
) -> c_int {
    match density(model, z, error) {
        Ok(log_p) => unsafe { *value = log_p },
        Err(code) => return code,
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_log_density_gradient(
    model: *const Model,
    _: bool,
    _: bool,
    z: *const f64,
    value: *mut f64,
    gradient: *mut f64,
    error: *mut *mut c_char,
) -> c_int {
    match density(model, z, error) {
        Ok(log_p) => unsafe {
            *value = log_p;
            *gradient = -*z;
            *gradient.add(1) = -4.0 * *z.add(1);
        },
        Err(code) => return code,
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_rng_construct(seed: c_uint, _: *mut *mut c_char) -> *mut u64 {
    Box::into_raw(Box::new(u64::from(seed)))
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_rng_destruct(rng: *mut u64) {
    drop(unsafe { Box::from_raw(rng) });
}

#[unsafe(no_mangle)]
pub extern "C" fn bs_set_print_callback(print: Print, _: *mut *mut c_char) -> c_int {
    *PRINT.lock().unwrap() = Some(print);
    0
}
