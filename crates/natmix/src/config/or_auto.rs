//! Values as people give them: a value or `auto`, one number for all coordinates or one for each.

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A value, or `auto`: what suits the target and the method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrAuto<T> {
    /// Chosen for the target.
    #[default]
    Auto,
    /// This one.
    Is(T),
}

impl<T> OrAuto<T> {
    /// The value, if one was given.
    pub fn given(self) -> Option<T> {
        match self {
            OrAuto::Auto => None,
            OrAuto::Is(value) => Some(value),
        }
    }
}

impl<T> From<T> for OrAuto<T> {
    fn from(value: T) -> Self {
        Self::Is(value)
    }
}

impl<T: fmt::Display> fmt::Display for OrAuto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrAuto::Auto => write!(f, "auto"),
            OrAuto::Is(value) => value.fmt(f),
        }
    }
}

impl<T: Serialize> Serialize for OrAuto<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OrAuto::Auto => serializer.serialize_str("auto"),
            OrAuto::Is(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrAuto<T> {
    /// Takes `auto`, a value, and a number written as text: version 0.1 wrote `components = "3"`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OrAuto<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "auto, or a value")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OrAuto<T>, E> {
                match text.parse::<u64>() {
                    _ if text == "auto" => Ok(OrAuto::Auto),
                    Ok(number) => self.visit_u64(number),
                    Err(_) => T::deserialize(text.into_deserializer()).map(OrAuto::Is),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<OrAuto<T>, E> {
                T::deserialize(number.into_deserializer()).map(OrAuto::Is)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<OrAuto<T>, E> {
                T::deserialize(number.into_deserializer()).map(OrAuto::Is)
            }
        }
        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}

/// One number for all coordinates, or one for each. In a file one number stands for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PerCoordinate(pub Vec<f64>);

impl From<f64> for PerCoordinate {
    fn from(number: f64) -> Self {
        Self(vec![number])
    }
}

impl From<Vec<f64>> for PerCoordinate {
    fn from(numbers: Vec<f64>) -> Self {
        Self(numbers)
    }
}

impl From<PerCoordinate> for Vec<f64> {
    fn from(numbers: PerCoordinate) -> Self {
        numbers.0
    }
}

impl FromStr for PerCoordinate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split(',').map(|number| number.trim().parse());
        numbers
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|_| "not a number, or numbers with commas between them".into())
    }
}

impl Serialize for PerCoordinate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PerCoordinate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged, expecting = "expected a number, or a list of numbers")]
        enum Numbers {
            One(f64),
            Many(Vec<f64>),
        }
        Ok(match Numbers::deserialize(deserializer)? {
            Numbers::One(one) => one.into(),
            Numbers::Many(many) => Self(many),
        })
    }
}
