//! Coordinates of chains as numbers, exact to the bit.

use super::{Form, MOST_LOCATIONS, MOST_SCALES, Scale, Scaled, Scales};
use crate::save::bundle::{Layout, Tensors};

/// The tensors, after a prefix: scales, locations, and the coordinates that take their scale from another.
const FROM: &str = "scales";
const AROUND: &str = "locations";
const SCALED: &str = "scaled";
/// Numbers of a scale, of a location, and of a scaled coordinate but for its shifts.
const SCALE: usize = 4;
const LOCATION: usize = 2;
const FIXED: usize = 7;

/// How many scales, locations and scaled coordinates there are.
pub(in crate::chains) type ScaleCounts = [usize; 3];

impl Scales {
    pub(in crate::chains) fn counts(&self) -> ScaleCounts {
        [self.from.len(), self.around.len(), self.scaled.len()]
    }

    /// The tensors of so many.
    pub(in crate::chains) fn layout(prefix: &str, [scales, locations, scaled]: ScaleCounts) -> Layout {
        vec![
            (format!("{prefix}_{FROM}"), vec![scales, SCALE]),
            (format!("{prefix}_{AROUND}"), vec![locations, LOCATION]),
            (format!("{prefix}_{SCALED}"), vec![scaled, FIXED.saturating_add(locations)]),
        ]
    }

    pub(in crate::chains) fn add_to(&self, prefix: &str, tensors: &mut Tensors) {
        let from = self.from.iter().flat_map(|one| [one.coordinate as f64, one.mean, one.sd, one.k]).collect();
        let around = self.around.iter().flat_map(|&(coordinate, mean)| [coordinate as f64, mean]).collect();
        let mut scaled = Vec::new();
        for Scaled { coordinate, scale, form, centre, along, shift } in &self.scaled {
            let Form { centred, share, k } = *form;
            let centred = f64::from(u8::from(centred));
            scaled.extend([*coordinate as f64, *scale as f64, centred, share, k, *centre, *along]);
            scaled.extend(shift);
        }
        for ((name, shape), data) in Self::layout(prefix, self.counts()).into_iter().zip([from, around, scaled]) {
            tensors.add(&name, shape, data);
        }
    }

    /// From tensors that have the layout; `None` if they do not describe coordinates in dimension `d`.
    pub(in crate::chains) fn of_tensors(prefix: &str, tensors: &Tensors, d: usize) -> Option<Self> {
        let below = |x: f64, most: usize| (x >= 0.0 && x < most as f64 && x.fract() == 0.0).then_some(x as usize);
        let get = |name: &str| tensors.get(&format!("{prefix}_{name}"));
        let from = get(FROM).as_chunks::<SCALE>().0.iter();
        let from = from.map(|&[at, mean, sd, k]| Some(Scale { coordinate: below(at, d)?, mean, sd, k }));
        let from: Vec<Scale> = from.collect::<Option<_>>()?;
        let around = get(AROUND).as_chunks::<LOCATION>().0.iter();
        let around: Vec<_> = around.map(|&[at, mean]| Some((below(at, d)?, mean))).collect::<Option<_>>()?;
        if from.is_empty() || from.len() > MOST_SCALES || around.len() > MOST_LOCATIONS {
            return None;
        }
        let scaled = get(SCALED).chunks_exact(FIXED + around.len()).map(|one| {
            let (&[at, scale, centred, share, k, centre, along], shift) = one.split_first_chunk::<FIXED>()?;
            Some(Scaled {
                coordinate: below(at, d)?,
                scale: below(scale, from.len())?,
                form: Form { centred: below(centred, 2)? == 1, share, k },
                centre,
                along,
                shift: shift.to_vec(),
            })
        });
        let scaled = scaled.collect::<Option<_>>()?;
        Some(Self { d, from, around, scaled })
    }
}
