//! Values as users write them: a value or `auto`, one number for all coordinates or one per coordinate.

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
                    Err(_) => value(text.into_deserializer()),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<OrAuto<T>, E> {
                value(number.into_deserializer())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<OrAuto<T>, E> {
                value(number.into_deserializer())
            }
        }

        /// A value; an error message lists `auto` among the accepted values.
        fn value<'de, T, E, D>(deserializer: D) -> Result<OrAuto<T>, E>
        where
            T: Deserialize<'de>,
            E: de::Error,
            D: Deserializer<'de, Error = de::value::Error>,
        {
            let auto = |error: de::value::Error| error.to_string().replacen("expected ", "expected auto or ", 1);
            T::deserialize(deserializer).map(OrAuto::Is).map_err(|error| E::custom(auto(error)))
        }
        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}

/// Reads a value by the name that it has in files.
pub fn parse<T: de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let read: Result<T, de::value::Error> = T::deserialize(text.into_deserializer());
    read.map_err(|error| in_words(&error.to_string()))
}

/// Turns serde's error message into a phrase that says what the value must be.
pub fn in_words(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    let Some((_, expected)) = line.rsplit_once("expected ") else { return format!("is wrong: {line}") };
    let (auto, expected) = expected.strip_prefix("auto or ").map_or(("", expected), |expected| ("auto or ", expected));
    let expected = match expected {
        "f64" | "f32" => "a number".into(),
        "u64" | "usize" => "a non-negative whole number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "path string" => "text".into(),
        "a sequence" => "a list".into(),
        names => names.replace('`', ""),
    };
    format!("must be {auto}{expected}")
}

/// One number for all coordinates, or one per coordinate. In a file a single number needs no list.
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
