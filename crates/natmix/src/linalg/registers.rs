//! Leaves the vector registers as other code expects them.
//!
//! The kernels of the linear-algebra crate use the upper halves of the vector registers and do not clear them. Until something
//! does, code that was not compiled for such registers, as that of most targets and of the standard library, waits for them with
//! every instruction: logarithms after a product have taken 29 times as long.

/// Clears the upper halves. Takes about a nanosecond.
pub(super) fn clear() {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.avx._mm256_zeroupper();
    }
}
