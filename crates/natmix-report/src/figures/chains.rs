//! How the chains moved: traces and ranks of the parameters on which they agree least, and their energies.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{Draws, Report, number};
use natmix::answer::delivered::DeliveredChains;

/// Parameters shown.
const SHOWN: usize = 4;
/// Most points of a line.
const MOST_POINTS: usize = 200;
/// Bars of the ranks of one start, and of the energies.
const RANK_BARS: usize = 20;
const ENERGY_BARS: usize = 48;
/// Height of a row of ranks, and the most rows.
const ROW: f64 = 17.0;
const MOST_ROWS: usize = 12;
/// Energies further out than this share of draws are drawn at the edge.
const OUTSIDE: f64 = 0.002;

/// The values of one parameter along all chains.
pub struct ChainColumn<'a> {
    name: &'a str,
    r_hat: f64,
    /// Chain after chain.
    values: Vec<f64>,
    chains: &'a DeliveredChains,
    /// Width of its pictures.
    width: f64,
}

/// The parameters on which the chains agree least; none without chains.
pub fn worst<'a>(report: &'a Report, draws: &'a Draws) -> Vec<ChainColumn<'a>> {
    let p = draws.names.len();
    let Some(chains) = draws.chains.as_ref().filter(|_| p == report.parameters.len()) else { return Vec::new() };
    let r_hat = |j: usize| report.parameters[j].r_hat.unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..p).collect();
    // The sort is stable: equal ones keep their order.
    order.sort_by(|a, b| r_hat(*b).total_cmp(&r_hat(*a)));
    order.truncate(SHOWN);
    let width = super::panel_width(order.len());
    let column = |j: usize| ChainColumn {
        name: &draws.names[j],
        r_hat: r_hat(j),
        values: draws.values.iter().skip(j).step_by(p).copied().collect(),
        chains,
        width,
    };
    order.into_iter().map(column).collect()
}

impl ChainColumn<'_> {
    /// An empty picture with the name of the parameter and its R-hat.
    fn scene(&self, height: f64, what: &str) -> Scene {
        let title = format!("{what} of {}", text::fit(self.name, TICK, false, 400.0));
        let mut scene = Scene::new(self.width, height, title);
        let r_hat = format!("R\u{302} {}", number::fixed(self.r_hat, 4));
        let room = self.width - 20.0 - text::width(&r_hat, TICK, false);
        scene.text(TextLabel::new((4.0, 15.0), text::fit(self.name, 13.0, true, room), 13.0, Ink::TEXT).bold());
        scene.text(TextLabel::new((self.width - 4.0, 15.0), r_hat, TICK, Ink::MUTED).anchored(Anchor::End));
        scene
    }

    /// The middle 90% of all chains over the iterations, and one chain of each start.
    pub fn trace(&self) -> Scene {
        let (chains, length) = (self.chains, self.chains.length());
        let mut scene = self.scene(190.0, "Trace");
        let step = length.div_ceil(MOST_POINTS).max(1);
        let band: Vec<(f64, f64, f64)> = (0..length)
            .step_by(step)
            .map(|t| {
                let at_once = (0..chains.count).map(|chain| self.values[chain * length + t]);
                let (low, high) = middle(at_once.collect(), 0.05);
                ((t * chains.every) as f64, low, high)
            })
            .collect();
        let shown = |start: usize| {
            let from = start * chains.per_start * length;
            (0..length).step_by(step).map(move |t| ((t * chains.every) as f64, self.values[from + t]))
        };
        let starts = chains.starts().min(Ink::SERIES);
        let (lowest, highest) = middle((0..starts).flat_map(shown).map(|(_, y)| y).collect(), OUTSIDE);
        let low = band.iter().map(|b| b.1).fold(lowest, f64::min);
        let high = band.iter().map(|b| b.2).fold(highest, f64::max);
        let (x, y) =
            (Scale::linear(0.0, ((length.max(2) - 1) * chains.every) as f64), Scale::linear(low, high).padded(0.03));
        let y_ticks = axis::ticks(&y, 5);
        let left = axis::label_room(&y_ticks);
        let panel = Panel { left, right: self.width - 6.0, top: 26.0, bottom: 190.0 - 36.0, x, y };
        panel.y_axis(&mut scene, &y_ticks);
        let upper = band.iter().map(|b| panel.at((b.0, b.2)));
        let lower = band.iter().rev().map(|b| panel.at((b.0, b.1)));
        scene.area(upper.chain(lower).collect(), Ink::AXIS, 0.25);
        for start in 0..starts {
            let line = shown(start).map(|p| panel.at(p)).collect();
            scene.line(line, Ink::series(start), 0.8);
        }
        let make = |most| axis::count_ticks(&x, most);
        panel.x_axis(&mut scene, &axis::side_by_side(make, panel.right - panel.left), false);
        let label = TextLabel::new((panel.right, 190.0 - 4.0), "iteration", TICK, Ink::MUTED);
        scene.text(label.anchored(Anchor::End));
        scene
    }

    /// How the ranks of the draws of each start are distributed among those of all: evenly, if the starts agree.
    pub fn ranks(&self) -> Scene {
        let starts = self.chains.starts().max(1);
        let (rows, each) = (starts.min(MOST_ROWS), self.values.len() / starts);
        let height = 30.0 + rows as f64 * ROW + 20.0;
        let mut scene = self.scene(height, "Ranks");
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| self.values[*a].total_cmp(&self.values[*b]));
        let mut bars = vec![[0.0_f64; RANK_BARS]; starts];
        for (rank, at) in order.into_iter().enumerate() {
            bars[(at / each.max(1)).min(starts - 1)][rank * RANK_BARS / self.values.len()] += 1.0;
        }
        let even = each as f64 / RANK_BARS as f64;
        let (left, right) = (4.0, self.width - 4.0);
        let wide = (right - left) / RANK_BARS as f64;
        for (start, bars) in bars.iter().take(rows).enumerate() {
            let foot = 28.0 + (start + 1) as f64 * ROW;
            // Twice the even height fills the row.
            let up = |count: f64| foot - (0.5 * count / even).min(1.0) * (ROW - 3.0);
            for (i, count) in bars.iter().enumerate() {
                let x = left + i as f64 * wide;
                scene.rect((x, up(*count)), (x + wide - 1.0, foot), Ink::series(start), 0.55);
            }
            scene.dashed(vec![(left, up(even)), (right, up(even))], Ink::AXIS, 0.8);
        }
        for (x, label, anchor) in [(left, "smallest", Anchor::Start), (right, "largest", Anchor::End)] {
            scene.text(TextLabel::new((x, height - 5.0), label, TICK, Ink::MUTED).anchored(anchor));
        }
        scene
    }
}

/// Mean square of the changes of the energy beside its variance: below about 0.3, momenta change the energy too little at a
/// time for chains to reach all of it.
pub fn energy_share(chains: &DeliveredChains) -> f64 {
    let n = chains.energy.len() as f64;
    let mean = chains.energy.iter().sum::<f64>() / n;
    let variance = chains.energy.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / n;
    chains.energy_change.iter().map(|e| e * e).sum::<f64>() / n / variance
}

/// Energies about their mean, and their changes from one iteration to the next.
pub fn energy(chains: &DeliveredChains, width: f64) -> Option<Scene> {
    let n = chains.energy.len() as f64;
    let mean = chains.energy.iter().sum::<f64>() / n;
    let marginal: Vec<f64> = chains.energy.iter().map(|e| e - mean).collect();
    let (low, high) = middle(marginal.iter().chain(&chains.energy_change).copied().collect(), OUTSIDE);
    if !(high > low && energy_share(chains).is_finite()) {
        return None;
    }
    let height = 250.0;
    let mut scene = Scene::new(width, height, "Energies, and their changes");
    let x = Scale::linear(low, high);
    let shares = [&marginal, &chains.energy_change].map(|values| shares(values, low, high));
    let tallest = shares.iter().flatten().copied().fold(0.0, f64::max);
    let panel = Panel {
        left: 6.0,
        right: width - 6.0,
        top: 40.0,
        bottom: height - 40.0,
        x,
        y: Scale::linear(0.0, tallest).padded(0.0),
    };
    let part = (high - low) / ENERGY_BARS as f64;
    for ((shares, name), series) in shares.iter().zip(["energy", "change to the next iteration"]).zip(0..) {
        let mut line = Vec::new();
        for (i, share) in shares.iter().enumerate() {
            line.extend([0.0, 1.0].map(|end| panel.at((low + (i as f64 + end) * part, *share))));
        }
        let mut shape = line.clone();
        shape.extend([panel.at((high, 0.0)), panel.at((low, 0.0))]);
        scene.area(shape, Ink::series(series), 0.2);
        scene.line(line, Ink::series(series), 1.6);
        let at = (6.0 + 70.0 * series as f64, 15.0);
        scene.text(TextLabel::new(at, name, TICK, Ink::series(series)).bold());
    }
    let share = format!("E-BFMI {}", number::fixed(energy_share(chains), 2));
    scene.text(TextLabel::new((width - 6.0, 15.0), share, TICK, Ink::MUTED).anchored(Anchor::End));
    let make = |most| axis::ticks(&x, most);
    panel.x_axis(&mut scene, &axis::side_by_side(make, panel.right - panel.left), false);
    let label = TextLabel::new((panel.right, height - 5.0), "energy minus its mean (nats)", TICK, Ink::MUTED);
    scene.text(label.anchored(Anchor::End));
    Some(scene)
}

/// The share of values in each of equal parts of a range; those outside count at its ends.
fn shares(values: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut shares = vec![0.0; ENERGY_BARS];
    for value in values {
        let at = ((value - low) / (high - low) * ENERGY_BARS as f64).clamp(0.0, ENERGY_BARS as f64 - 1.0);
        shares[at as usize] += 1.0 / values.len() as f64;
    }
    shares
}

/// The range without a share of the finite values at each end.
fn middle(mut values: Vec<f64>, outside: f64) -> (f64, f64) {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return (0.0, 1.0) };
    let place = (outside * last as f64) as usize;
    (values[place], values[last - place])
}
