//! Who a client is.

use std::{fmt, sync::Arc};

/// Someone whom the server tells apart from others: the name that belongs to a bearer token. A
/// tool call is answered only by the principal that it was sent to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Whoever is there when nobody has to say who they are.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::named("anonymous")
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Principal({})", self.0)
    }
}
