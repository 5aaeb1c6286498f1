//! Structs of optional settings that can be layered.

/// Declares a struct whose fields are all optional settings: `None` leaves a choice open. It gets
///
/// - `over(earlier)`: what is set here, else what was set there;
/// - `NAMES`, and `given()`: the names of all settings, and of those that are set;
/// - serde's traits with unknown names refused and unset fields left out.
///
/// ```
/// natmix::overlay! {
///     /// Settings of a walk.
///     pub struct Walk {
///         /// Steps per minute.
///         pub pace: f64,
///         /// Kilometres.
///         pub length: f64,
///     }
/// }
/// let file = Walk { pace: Some(90.0), length: Some(5.0) };
/// let flags = Walk { pace: Some(110.0), ..Walk::default() };
/// assert_eq!(flags.given().collect::<Vec<_>>(), ["pace"]);
/// assert_eq!(flags.over(file), Walk { pace: Some(110.0), length: Some(5.0) });
/// ```
#[macro_export]
macro_rules! overlay {
    ($(#[$about:meta])* $public:vis struct $name:ident {
        $($(#[$field_about:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $public struct $name {
            $(
                $(#[$field_about])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $name {
            /// The names of all settings.
            pub const NAMES: &[&str] = &[$(stringify!($field)),*];

            /// These settings, and those of `earlier` where nothing is set here.
            pub fn over(self, earlier: Self) -> Self {
                Self { $($field: self.$field.or(earlier.$field),)* }
            }

            /// The names of the settings that are set.
            pub fn given(&self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($field), self.$field.is_some())),*].into_iter().filter(|entry| entry.1).map(|entry| entry.0)
            }
        }
    };
}
