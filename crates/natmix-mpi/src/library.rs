//! The functions of an MPI library that is loaded when the program runs.
//!
//! All unsafe code of the crate is here. MPI's functions are the same everywhere; what differs is how the communicator of all processes
//! and the type of a double are named. There are two binary interfaces, each kept for many years:
//!
//! | interface | a handle is | `MPI_COMM_WORLD` | `MPI_DOUBLE` |
//! |---|---|---|---|
//! | Open MPI | a pointer | the address of `ompi_mpi_comm_world` | that of `ompi_mpi_double` |
//! | MPICH (its ABI initiative: Intel MPI, MVAPICH, Cray MPICH) | an `int` | `0x44000000` | `0x4c00080b` |
//!
//! A status is only handed from `MPI_Iprobe` to `MPI_Get_count`, in a buffer that is larger than that of any library. What makes it
//! sound: the library is never unloaded, the functions have the types of the standard, the handles those of the interface that the library
//! was recognised by, and buffers the lengths that are stated. Errors end the job: that is MPI's own default.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt::Debug;
use std::path::PathBuf;

/// What is called of a library.
pub(crate) trait Library: Debug + Send + Sync {
    /// Where it was loaded from.
    fn file(&self) -> &str;
    /// Starts MPI, for threads that take turns.
    fn init(&self) -> Result<(), String>;
    fn rank(&self) -> usize;
    fn ranks(&self) -> usize;
    fn send(&self, to: c_int, message: &[f64]);
    /// How many numbers the next message from a process has, if it has arrived.
    fn waiting(&self, from: c_int) -> Option<usize>;
    /// Receives a message of the length of `message`.
    fn receive(&self, from: c_int, message: &mut [f64]);
    fn abort(&self, code: c_int);
    fn finalize(&self);
}

/// Loads the first of these libraries that can be used.
#[cfg(not(unix))]
pub(crate) fn load(_: &[PathBuf]) -> Result<Box<dyn Library>, String> {
    Err("processes that mpirun starts are supported on Unix only".into())
}

/// Loads the first of these libraries that can be used.
#[cfg(unix)]
pub(crate) fn load(candidates: &[PathBuf]) -> Result<Box<dyn Library>, String> {
    unix::load(candidates)
}

#[cfg(unix)]
mod unix {
    use super::Library;
    use crate::find::VARIABLE;
    use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
    use std::ffi::{c_char, c_int, c_void};
    use std::fmt::{Debug, Formatter};
    use std::mem::ManuallyDrop;
    use std::path::PathBuf;
    use std::ptr::null_mut;

    /// `MPI_THREAD_SERIALIZED`: several threads may call MPI, one at a time.
    const SERIALIZED: c_int = 2;
    const TAG: c_int = 0;
    /// Larger than `MPI_MAX_LIBRARY_VERSION_STRING` of any library.
    const VERSION_ROOM: usize = 1 << 14;
    /// Larger than the status of any library: those have 20 to 40 bytes.
    type Status = [u64; 32];

    /// The communicator of all processes, and the type of a double.
    struct Handles<H> {
        world: H,
        double: H,
    }

    /// The handles of the ABI of MPICH.
    const OF_MPICH: Handles<c_int> = Handles { world: 0x4400_0000, double: 0x4c00_080b };
    /// What the libraries with this ABI say about themselves.
    const LIKE_MPICH: [&str; 4] = ["MPICH", "Intel(R) MPI", "MVAPICH", "CRAY MPI"];

    macro_rules! functions {
        ($($field:ident = $symbol:ident: fn($($argument:ty),*);)*) => {
            struct Functions<H> { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

            impl<H> Functions<H> {
                fn of(library: &Loaded) -> Result<Self, String> {
                    Ok(Self {
                        $($field: {
                            let name = concat!(stringify!($symbol), "\0").as_bytes();
                            // SAFETY: the standard gives the function this type, for handles of type H.
                            let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_int>(name) };
                            *symbol.map_err(|_| format!("has no function {}", stringify!($symbol)))?
                        },)*
                    })
                }
            }
        };
    }

    functions! {
        init = MPI_Init_thread: fn(*mut c_int, *mut c_void, c_int, *mut c_int);
        rank = MPI_Comm_rank: fn(H, *mut c_int);
        size = MPI_Comm_size: fn(H, *mut c_int);
        send = MPI_Send: fn(*const f64, c_int, H, c_int, c_int, H);
        probe = MPI_Iprobe: fn(c_int, c_int, H, *mut c_int, *mut Status);
        count = MPI_Get_count: fn(*const Status, H, *mut c_int);
        receive = MPI_Recv: fn(*mut f64, c_int, H, c_int, c_int, H, *mut Status);
        abort = MPI_Abort: fn(H, c_int);
        finalize = MPI_Finalize: fn();
    }

    /// A library whose handles have type `H`.
    struct Mpi<H> {
        file: String,
        functions: Functions<H>,
        handles: Handles<H>,
        /// Never unloaded: it starts threads of its own.
        _library: ManuallyDrop<Loaded>,
    }

    // SAFETY: handles are numbers or addresses of the library's own variables, and MPI was started for threads that take turns.
    unsafe impl<H> Send for Mpi<H> {}
    // SAFETY: as above; those who use it take turns (`World`).
    unsafe impl<H> Sync for Mpi<H> {}

    impl<H> Debug for Mpi<H> {
        fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Mpi").field("file", &self.file).finish_non_exhaustive()
        }
    }

    impl<H: Copy> Library for Mpi<H> {
        fn file(&self) -> &str {
            &self.file
        }

        fn init(&self) -> Result<(), String> {
            let mut provided = 0;
            // SAFETY: arguments of the program need not be handed over since MPI 2.
            let code = unsafe { (self.functions.init)(null_mut(), null_mut(), SERIALIZED, &mut provided) };
            if code != 0 || provided < SERIALIZED {
                return Err(format!("{} does not let threads take turns: Open MPI and MPICH do", self.file));
            }
            Ok(())
        }

        fn rank(&self) -> usize {
            let mut rank = 0;
            // SAFETY: MPI has been started.
            unsafe { (self.functions.rank)(self.handles.world, &mut rank) };
            rank as usize
        }

        fn ranks(&self) -> usize {
            let mut ranks = 0;
            // SAFETY: MPI has been started.
            unsafe { (self.functions.size)(self.handles.world, &mut ranks) };
            ranks as usize
        }

        fn send(&self, to: c_int, message: &[f64]) {
            let Handles { world, double } = self.handles;
            let count = c_int::try_from(message.len()).expect("messages have at most 2^31 numbers");
            // SAFETY: `message` has `count` numbers and is not needed when this returns.
            unsafe { (self.functions.send)(message.as_ptr(), count, double, to, TAG, world) };
        }

        fn waiting(&self, from: c_int) -> Option<usize> {
            let Handles { world, double } = self.handles;
            let (mut found, mut count, mut status): (c_int, c_int, Status) = (0, 0, [0; 32]);
            // SAFETY: the status is large enough for any library.
            unsafe { (self.functions.probe)(from, TAG, world, &mut found, &mut status) };
            if found == 0 {
                return None;
            }
            // SAFETY: the status is one that the probe has filled.
            unsafe { (self.functions.count)(&status, double, &mut count) };
            Some(count as usize)
        }

        fn receive(&self, from: c_int, message: &mut [f64]) {
            let Handles { world, double } = self.handles;
            let mut status: Status = [0; 32];
            let count = message.len() as c_int;
            // SAFETY: `message` has room for `count` numbers, which is what the next message has.
            unsafe { (self.functions.receive)(message.as_mut_ptr(), count, double, from, TAG, world, &mut status) };
        }

        fn abort(&self, code: c_int) {
            // SAFETY: MPI has been started.
            unsafe { (self.functions.abort)(self.handles.world, code) };
        }

        fn finalize(&self) {
            // SAFETY: MPI has been started, and `World` calls nothing afterwards.
            unsafe { (self.functions.finalize)() };
        }
    }

    pub(super) fn load(candidates: &[PathBuf]) -> Result<Box<dyn Library>, String> {
        let mut problems = Vec::new();
        for path in candidates {
            let file = path.display().to_string();
            // Open MPI loads parts of itself later, which look for its symbols among those of the whole program.
            // SAFETY: an MPI library may be loaded by any program; its start-up code does nothing but set up itself.
            match unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => match recognise(ManuallyDrop::new(library), &file) {
                    Ok(library) => return Ok(library),
                    Err(problem) => problems.push(format!("{file} {problem}")),
                },
                Err(error) => {
                    let reason =
                        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                    problems.push(if reason.contains(&file) { reason } else { format!("{file}: {reason}") });
                }
            }
        }
        Err(format!(
            "mpirun has started this process, but its MPI library was not found (name the file in {VARIABLE}): {}",
            problems.join("; ")
        ))
    }

    /// Finds out which interface a library has.
    fn recognise(library: ManuallyDrop<Loaded>, file: &str) -> Result<Box<dyn Library>, String> {
        let file = file.to_owned();
        let address = |name: &[u8]| {
            // SAFETY: only the address is taken.
            unsafe { library.get::<*mut c_void>(name) }.ok().map(|symbol| *symbol)
        };
        if let (Some(world), Some(double)) = (address(b"ompi_mpi_comm_world\0"), address(b"ompi_mpi_double\0")) {
            let (functions, handles) = (Functions::of(&library)?, Handles { world, double });
            return Ok(Box::new(Mpi { file, functions, handles, _library: library }));
        }
        let about = version(&library)?;
        if LIKE_MPICH.iter().any(|name| about.contains(name)) {
            return Ok(Box::new(Mpi {
                file,
                functions: Functions::of(&library)?,
                handles: OF_MPICH,
                _library: library,
            }));
        }
        let about = about.lines().next().unwrap_or_default();
        Err(format!("is neither Open MPI nor compatible with MPICH (it says: {about})"))
    }

    /// What a library says about itself, which it does even before MPI is started.
    fn version(library: &Loaded) -> Result<String, String> {
        type Function = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
        // SAFETY: the standard gives the function this type.
        let symbol = unsafe { library.get::<Function>(b"MPI_Get_library_version\0") };
        let function = symbol.map_err(|_| "is no MPI library".to_owned())?;
        let (mut text, mut len) = (vec![0_u8; VERSION_ROOM], 0);
        // SAFETY: there is more room than any library has text.
        unsafe { function(text.as_mut_ptr().cast(), &mut len) };
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(len.max(0) as usize));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_mpi_library_is_refused_in_words() {
        // Every program on Unix has one of these.
        let libc = if cfg!(target_os = "macos") { "/usr/lib/libSystem.B.dylib" } else { "libc.so.6" };
        let problem = load(&[libc.into(), "/nowhere/libmpi.so".into()]).unwrap_err();
        assert!(problem.contains("is no MPI library") && problem.contains(crate::VARIABLE), "{problem}");
        assert!(problem.contains("/nowhere/libmpi.so"), "{problem}");
    }
}
