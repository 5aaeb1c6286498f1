//! Whatever else a file may be, or become, is refused with a reason.

#[path = "common/posteriors.rs"]
mod posteriors;
#[path = "common/random.rs"]
mod random;

use natmix::Error;
use natmix::save::{Posterior, read_posterior_bytes};
use posteriors::{diag, full, posterior};
use random::Random;
use serde_json::{Value, json};

fn bad_file(bytes: &[u8]) -> String {
    match read_posterior_bytes(bytes) {
        Err(Error::BadFile { problem, .. }) => problem,
        other => panic!("expected a bad file, found {other:?}"),
    }
}

/// Whatever is accepted must be a posterior like any other.
fn check_valid(posterior: &Posterior) {
    let Posterior { mixture, .. } = posterior;
    assert!((mixture.weights().iter().sum::<f64>() - 1.0).abs() < 1e-8);
    for component in mixture.components() {
        assert!(component.mean().iter().all(|x| x.is_finite()) && component.log_norm().is_finite());
        let _ = mixture.log_density(component.mean());
    }
    let again = read_posterior_bytes(&posterior.to_bytes().unwrap()).unwrap();
    assert_eq!(again, *posterior);
}

/// Takes the header of a file apart, changes it and puts a file together again.
fn with_header(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    change(&mut header);
    unseal(&mut header);
    assemble(&header.to_string(), &bytes[8 + len..])
}

/// Removes the checksum, which would notice every change first.
fn unseal(header: &mut Value) {
    let text = &mut header["__metadata__"]["natmix"];
    if let Some(Ok(mut document)) = text.as_str().map(serde_json::from_str::<Value>)
        && let Some(fields) = document.as_object_mut()
    {
        fields.remove("checksum");
        *text = document.to_string().into();
    } else if header["__metadata__"]["natmix"].is_null() {
        // Indexing has made it.
        header["__metadata__"].as_object_mut().unwrap().remove("natmix");
    }
}

/// The same file as version 0.1 wrote it: without a checksum.
fn unsealed(bytes: &[u8]) -> Vec<u8> {
    with_header(bytes, |_| {})
}

fn with_document(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    with_header(bytes, |header| {
        let text = &mut header["__metadata__"]["natmix"];
        let mut document: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        change(&mut document);
        *text = document.to_string().into();
    })
}

/// Changes the numbers of one tensor.
fn with_numbers(bytes: &[u8], name: &str, change: impl FnOnce(&mut [f64])) -> Vec<u8> {
    let bytes = &unsealed(bytes)[..];
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let offset = |i: usize| 8 + len + header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    let mut changed = bytes.to_vec();
    let place = &mut changed[offset(0)..offset(1)];
    let mut numbers: Vec<f64> = place.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect();
    change(&mut numbers);
    place.chunks_exact_mut(8).zip(&numbers).for_each(|(place, x)| place.copy_from_slice(&x.to_le_bytes()));
    changed
}

fn assemble(header: &str, payload: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), payload].concat()
}

#[test]
fn every_truncation_is_an_error() {
    for mixture in [full(2, 2), diag(2, 2)] {
        let bytes = posterior(mixture).to_bytes().unwrap();
        for len in 0..bytes.len() {
            bad_file(&bytes[..len]);
        }
        bad_file(&[&bytes[..], &[0]].concat());
        bad_file(&[&bytes[..], &[0; 8]].concat());
    }
}

/// Not one flipped bit goes unnoticed.
#[test]
fn every_flipped_bit_is_an_error() {
    for mixture in [full(2, 2), diag(3, 2)] {
        let bytes = posterior(mixture).to_bytes().unwrap();
        let mut noticed_by_checksum = 0;
        for at in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            noticed_by_checksum += usize::from(bad_file(&damaged).contains("checksum"));
        }
        assert!(noticed_by_checksum > bytes.len(), "{noticed_by_checksum}");
    }
}

#[test]
fn a_file_without_a_checksum_is_read() {
    let saved = posterior(full(2, 2));
    let bytes = saved.to_bytes().unwrap();
    assert_eq!(read_posterior_bytes(&unsealed(&bytes)).unwrap(), saved);
    assert!(String::from_utf8_lossy(&bytes).contains("checksum"));
    assert!(!String::from_utf8_lossy(&unsealed(&bytes)).contains("checksum"));
    // A field of that name in the contents is not taken for it.
    let named = Posterior { details: json!({"checksum": "0123456789abcdef"}), ..saved };
    let bytes = named.to_bytes().unwrap();
    assert_eq!(read_posterior_bytes(&bytes).unwrap(), named);
    assert_eq!(read_posterior_bytes(&unsealed(&bytes)).unwrap(), named);
}

#[test]
fn every_flipped_byte_gives_an_error_or_a_valid_posterior() {
    for mixture in [full(2, 2), diag(3, 2)] {
        let bytes = unsealed(&posterior(mixture).to_bytes().unwrap());
        for at in 0..bytes.len() {
            for mask in [0x01, 0x04, 0x20, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                match read_posterior_bytes(&damaged) {
                    Ok(posterior) => check_valid(&posterior),
                    Err(error) => assert!(matches!(error, Error::BadFile { .. }), "byte {at}: {error}"),
                }
            }
        }
    }
}

#[test]
fn headers_of_any_claimed_length() {
    let bytes = posterior(full(1, 2)).to_bytes().unwrap();
    for (len, message) in [
        (u64::MAX, "is the most"),
        (u64::MAX - 7, "is the most"),
        ((16 << 20) + 1, "is the most"),
        (16 << 20, "are left"),
        (bytes.len() as u64 - 7, "are left"),
        (bytes.len() as u64 - 8, "not a file that natmix wrote"),
        (0, "not a file that natmix wrote"),
    ] {
        let mut damaged = bytes.clone();
        damaged[..8].copy_from_slice(&len.to_le_bytes());
        let problem = bad_file(&damaged);
        assert!(problem.contains(message), "{len}: {problem}");
    }
}

#[test]
fn damage_of_every_kind_is_named() {
    let bytes = posterior(full(2, 2)).to_bytes().unwrap();
    let header = |change: fn(&mut Value)| with_header(&bytes, change);
    let document = |change: fn(&mut Value)| with_document(&bytes, change);
    let numbers = |name: &str, change: fn(&mut [f64])| with_numbers(&bytes, name, change);
    let cases = [
        (header(|h| h["means"]["dtype"] = json!("I64")), "`means` is not of type F64"),
        (header(|h| h["means"]["dtype"] = json!("F8192")), "not a file that natmix wrote"),
        (header(|h| h["means"]["shape"] = json!([4])), "`means` has shape [4] instead of [2, 2]"),
        (header(|h| h["means"]["shape"] = json!([1u64 << 40, 1u64 << 40])), "overflow"),
        (header(|h| h["means"]["shape"] = json!([1u64 << 61])), "overflow"),
        (header(|h| h["means"]["shape"] = json!([u64::MAX, u64::MAX, 0])), "overflow"),
        (header(|h| h["means"]["shape"] = json!([-2, 2])), "not a file that natmix wrote"),
        (header(|h| h["means"]["data_offsets"] = json!([0, 32])), "invalid offset"),
        (header(|h| h["means"]["data_offsets"] = json!([u64::MAX, 0])), "invalid offset"),
        (header(|h| h["more"] = json!({"dtype": "F64", "shape": [0], "data_offsets": [0, 0]})), "`more` has no place"),
        (header(|h| h["more"] = json!({"dtype": "F64", "shape": [1], "data_offsets": [176, 184]})), "`more`"),
        (header(|h| drop(h.as_object_mut().unwrap().remove("precisions"))), "`precisions` is missing"),
        (header(|h| drop(h.as_object_mut().unwrap().remove("factors"))), "invalid offset"),
        (header(|h| drop(h.as_object_mut().unwrap().remove("__metadata__"))), "without `natmix`"),
        (header(|h| h["__metadata__"] = json!({"format": "pt"})), "without `natmix`"),
        (header(|h| h["__metadata__"]["natmix"] = json!("hello")), "not a file that natmix wrote"),
        (document(|d| d["format"] = json!(2)), "has format 2, but this natmix reads format 1"),
        (document(|d| d["format"] = json!(0)), "has format 0"),
        (document(|d| d["kind"] = json!("checkpoint")), "holds a checkpoint"),
        (document(|d| drop(d.as_object_mut().unwrap().remove("content"))), "content"),
        (document(|d| d["content"]["mixture"]["dim"] = json!(3)), "instead of [2, 3]"),
        (document(|d| d["content"]["mixture"]["dim"] = json!(0)), "dimension 0"),
        (document(|d| d["content"]["mixture"]["dim"] = json!(u64::MAX)), "too large"),
        (document(|d| d["content"]["mixture"]["dim"] = json!(1u64 << 31)), "damaged"),
        (document(|d| d["content"]["mixture"]["ids"] = json!([])), "0 components"),
        (document(|d| d["content"]["mixture"]["ids"] = json!([0])), "`log_weights` has shape [2] instead of [1]"),
        (document(|d| d["content"]["mixture"]["ids"] = json!([5, 5])), "same id"),
        (document(|d| d["content"]["mixture"]["covariance"] = json!("diag")), "instead of [2, 2]"),
        (document(|d| d["content"]["mixture"]["covariance"] = json!("round")), "round"),
        (document(|d| d["content"]["parameter_names"] = json!(7)), "damaged"),
        (numbers("means", |x| x[1] = f64::NAN), "`means` holds NaN"),
        (numbers("means", |x| x[3] = f64::INFINITY), "`means` holds inf"),
        (numbers("log_weights", |x| x[0] = f64::NAN), "`log_weights` holds NaN"),
        (numbers("log_weights", |x| x[0] = f64::NEG_INFINITY), "`log_weights` holds -inf"),
        (numbers("log_weights", |x| x[0] += 1e-8), "weights that sum to"),
        (numbers("factors", |x| x[0] = -x[0]), "component 0"),
        (numbers("factors", |x| x[4] = 0.0), "component 1"),
        (numbers("factors", |x| x[5] = 1e-300), "component 1"),
        (numbers("factors", |x| x[6] *= 1.0 + 1e-6), "component 1"),
        (numbers("factors", |x| x[0] = f64::NAN), "`factors` holds NaN"),
        (numbers("factors", |x| x[0] = 1e200), "component 0"),
        (numbers("precisions", |x| x[7] *= 1.0 + 1e-6), "component 1"),
        (numbers("precisions", |x| x[0] = -1.0), "component 0"),
        (numbers("precisions", |x| x.fill(0.0)), "component 0"),
    ];
    for (i, (damaged, message)) in cases.iter().enumerate() {
        let problem = bad_file(damaged);
        assert!(problem.contains(message), "case {i}: `{problem}` does not say `{message}`");
        assert!(problem.contains(": "), "case {i}: `{problem}` does not say what to do");
    }
    let bytes = posterior(diag(2, 2)).to_bytes().unwrap();
    assert!(bad_file(&with_numbers(&bytes, "factors", |x| x[3] *= 1.001)).contains("component 1"));
    assert!(bad_file(&with_numbers(&bytes, "precisions", |x| x[0] = 0.0)).contains("component 0"));
}

#[test]
fn foreign_files_are_refused() {
    bad_file(b"");
    bad_file(b"{}");
    bad_file(b"weights = [0.5, 0.5]\nmeans = [[1.0], [2.0]]\n");
    bad_file(&assemble("{}", b""));
    bad_file(&assemble("[]", b""));
    bad_file(&assemble("", b""));
    bad_file(&assemble(&"[".repeat(10_000), b""));
    bad_file(&assemble(&"{\"a\":".repeat(10_000), b""));
    let mut random = Random(7);
    for _ in 0..200 {
        bad_file(&(0..300).map(|_| random.bits() as u8).collect::<Vec<u8>>());
    }
}

/// Changes a file in one of the ways in which files break, or are broken on purpose.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()).min(bytes.len() as u64 - 8) as usize;
    let at = random.below(bytes.len());
    let in_header = 8 + random.below(header);
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.bits() as u8,
        // Digits, quotes and brackets make headers that still parse.
        2 | 3 => bytes[in_header.min(at.max(8))] = b"0123456789-.eE,:[]{}\"\\ nul"[random.below(26)],
        4 => {
            let digits: Vec<usize> =
                (8..8 + header).filter(|&i| bytes.get(i).is_some_and(u8::is_ascii_digit)).collect();
            if !digits.is_empty() {
                bytes[digits[random.below(digits.len())]] = b'0' + random.below(10) as u8;
            }
        }
        5 => bytes.insert(at, random.bits() as u8),
        6 => drop(bytes.remove(at)),
        7 => {
            let numbers = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e308, 5e-324, f64::from_bits(random.bits())];
            let place = (8 + header + 8 * random.below((bytes.len() - header) / 8)).min(bytes.len() - 8);
            bytes[place..place + 8].copy_from_slice(&numbers[random.below(7)].to_le_bytes());
        }
        _ => {
            let length = header as u64 ^ (1 << random.below(64));
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
    }
}

#[test]
fn twenty_thousand_mutations() {
    let bytes = |mixture| unsealed(&posterior(mixture).to_bytes().unwrap());
    let seeds = [full(1, 1), full(3, 2), diag(1, 1), diag(2, 3)].map(bytes);
    let mut random = Random(2024);
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            if bytes.len() > 16 {
                mutate(&mut bytes, &mut random);
            }
        }
        match read_posterior_bytes(&bytes) {
            Ok(posterior) => {
                accepted += 1;
                check_valid(&posterior);
            }
            Err(Error::BadFile { .. }) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!((100..15_000).contains(&accepted), "{accepted} were accepted: the mutations are too wild or too tame");
}
