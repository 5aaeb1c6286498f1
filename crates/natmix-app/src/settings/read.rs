//! From named values to settings: files, and the records of earlier fits.

use super::{FitMethod, FitSettings, NetworkSettings, PRIOR_SD, Settings, path_text};
use natmix::config::{OrAuto, Overrides, in_words};
use natmix::estimate::Trick;
use natmix::{Error, Method};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use std::collections::BTreeMap;

/// The value of a name in a file: a plain value, or the table of network settings. Records hold `null` where nothing
/// was set.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Entry {
    Table(BTreeMap<String, Option<toml::Value>>),
    Value(toml::Value),
}

/// Settings that version 0.1 kept in the table `[mlp]`, with their present names.
const MOVED: [(&str, &str); 4] =
    [("batch", "minibatch"), ("momentum", "momentum"), ("curvature_rate", "curvature_rate"), ("damping", "damping")];

impl TryFrom<BTreeMap<String, Option<Entry>>> for Settings {
    type Error = Error;

    fn try_from(entries: BTreeMap<String, Option<Entry>>) -> Result<Self, Error> {
        let mut settings = Settings::default();
        for (name, entry) in entries {
            match entry {
                None => {}
                Some(Entry::Value(value)) => settings.set(&name, value)?,
                Some(Entry::Table(table)) if name == "mlp" => {
                    for (name, value) in table {
                        if let Some(value) = value {
                            settings.set_network(&name, value)?;
                        }
                    }
                }
                Some(Entry::Table(_)) => {
                    return Err(Error::InvalidInput(format!("there is no table of settings `[{name}]`")));
                }
            }
        }
        Ok(settings.without_old_defaults())
    }
}

impl Settings {
    /// Sets one setting by its name in a file. A name that has a value already is refused.
    pub fn set(&mut self, name: &str, value: toml::Value) -> Result<(), Error> {
        if let Some(name) = known(FitSettings::NAMES, name) {
            let given: FitSettings = read(name, value)?;
            self.fit = given.map_paths(path_text::read).over(std::mem::take(&mut self.fit));
        } else if let Some(name) = known(Overrides::NAMES, name) {
            if self.engine.given().any(|set| set == name) {
                return Err(Error::Config { setting: name, problem: "is given twice".into() });
            }
            let given: Overrides = read(name, value)?;
            self.engine = given.over(std::mem::take(&mut self.engine));
        } else {
            return Err(Error::InvalidInput(format!("there is no setting `{name}`")));
        }
        Ok(())
    }

    /// Sets one setting of the table `[mlp]`, or one that used to be there.
    pub fn set_network(&mut self, name: &str, value: toml::Value) -> Result<(), Error> {
        if let Some((_, now)) = MOVED.iter().find(|(old, _)| *old == name) {
            return self.set(now, value);
        }
        let Some(name) = known(NetworkSettings::NAMES, name) else {
            return Err(Error::InvalidInput(format!("networks have no setting `{name}`")));
        };
        let mut given: NetworkSettings = read(name, value)?;
        given.ood = given.ood.map(path_text::read);
        self.network = given.over(std::mem::take(&mut self.network));
        Ok(())
    }

    /// Version 0.1 wrote its defaults into every file and record: the user did not choose them, so they are left unset
    /// here.
    fn without_old_defaults(mut self) -> Self {
        let Self { fit, engine, .. } = &mut self;
        let all_there = fit.method.is_some() && engine.components.is_some() && engine.covariance.is_some();
        if !(all_there && engine.draws.is_some() && engine.entropy_trick.is_some() && engine.tolerance.is_some()) {
            return self;
        }
        fn open<T: PartialEq>(setting: &mut Option<T>, default: T) {
            if *setting == Some(default) {
                *setting = None;
            }
        }
        open(&mut fit.method, FitMethod::Engine(Method::Auto));
        open(&mut fit.categorical, Vec::new());
        open(&mut fit.standardize, true);
        open(&mut fit.intercept, true);
        open(&mut fit.prior_sd, PRIOR_SD);
        open(&mut engine.components, OrAuto::Auto);
        open(&mut engine.covariance, OrAuto::Auto);
        open(&mut engine.draws, OrAuto::Auto);
        open(&mut engine.entropy_trick, Trick::Fitted);
        open(&mut engine.tolerance, 0.01);
        self
    }
}

fn known(names: &[&'static str], name: &str) -> Option<&'static str> {
    names.iter().find(|known| **known == name).copied()
}

/// A struct of settings with only this one set.
fn read<T: for<'de> Deserialize<'de>>(name: &'static str, value: toml::Value) -> Result<T, Error> {
    let shown = value.to_string();
    // Python users write 1e5 for whole numbers too.
    let whole = match value {
        toml::Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e15 => Some(toml::Value::Integer(x as i64)),
        _ => None,
    };
    let one = |value: toml::Value| T::deserialize(MapDeserializer::new(std::iter::once((name, value))));
    one(value).or_else(|error: toml::de::Error| whole.map_or(Err(error), one)).map_err(|error| {
        // The names that a setting has are told only to text that is none of them.
        let error = one(toml::Value::String("?".into())).err().unwrap_or(error);
        let problem = format!("{}, not {shown}", in_words(&error.to_string()));
        Error::Config { setting: name, problem }
    })
}
