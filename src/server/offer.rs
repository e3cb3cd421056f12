//! What a server of the operator offers, as the gate checks it: made once for each listing of its tools.
//!
//! Nothing of this is done on the threads of guests: schemas and arguments may be large, and it is nobody's processor
//! time there.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    gate::{Arguments, NoServers, OfferedTools},
    upstream::Listing,
};

/// The tools of a server.
pub struct Offer {
    server: String,
    tools: Arc<Vec<Tool>>,
    /// Where each stands.
    places: HashMap<String, usize>,
    /// Each by itself, once somebody calls it.
    checked: Vec<OnceLock<Checked>>,
    /// All without their schemas: enough to say which there are.
    names: OnceLock<OfferedTools>,
    /// As programs get them.
    entries: OnceLock<Arc<Vec<Value>>>,
    /// One check at a time: many calls of a program shall not take all processors from the others.
    turn: Arc<Semaphore>,
}

struct Checked {
    offered: OfferedTools,
    /// Whether the server's schema is one. A tool without takes anything.
    has_schema: bool,
}

impl Offer {
    /// Of the server that has this listing.
    #[must_use]
    pub fn of(listing: &Listing, server: &str) -> Arc<Self> {
        listing.kept(|| {
            let tools = Arc::clone(&listing.tools);
            let places = tools.iter().enumerate();
            let places = places.map(|(place, tool)| (tool.name.to_string(), place));
            Self {
                server: server.to_owned(),
                places: places.collect(),
                checked: tools.iter().map(|_| OnceLock::new()).collect(),
                tools,
                names: OnceLock::new(),
                entries: OnceLock::new(),
                turn: Arc::new(Semaphore::new(1)),
            }
        })
    }

    /// The arguments for a tool, as values, if they are as it wants them.
    ///
    /// # Errors
    /// What is wrong with them, or that there is no such tool, for the program.
    pub async fn check(
        self: Arc<Self>,
        tool: String,
        arguments: Arguments,
    ) -> Result<JsonObject, String> {
        let Some(turn) = self.turn().await else {
            return Err("the server is going away".to_owned());
        };
        let checking = spawn_blocking(move || {
            let checked = self.check_now(&tool, &arguments);
            drop(turn);
            checked
        });
        checking
            .await
            .unwrap_or_else(|_| Err("checking the arguments failed".to_owned()))
    }

    fn check_now(&self, tool: &str, arguments: &Arguments) -> Result<JsonObject, String> {
        let offered = match self.places.get(tool) {
            Some(place) => &self.checked(*place).offered,
            None => self.names.get_or_init(|| self.names()),
        };
        let tool = offered.find(tool, Some(&self.server), &NoServers)?;
        let arguments = arguments.value();
        tool.check(&arguments)?;
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(JsonObject::new()),
        }
    }

    /// All tools, as a client would offer them.
    pub async fn entries(self: Arc<Self>) -> Arc<Vec<Value>> {
        if let Some(entries) = self.entries.get() {
            return Arc::clone(entries);
        }
        let Some(turn) = self.turn().await else {
            return Arc::default();
        };
        let making = spawn_blocking(move || {
            let entries = self.entries.get_or_init(|| Arc::new(self.all()));
            drop(turn);
            Arc::clone(entries)
        });
        making.await.unwrap_or_default()
    }

    async fn turn(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    fn all(&self) -> Vec<Value> {
        let places = 0..self.tools.len();
        let entries = places.map(|place| {
            let has_schema = self.checked(place).has_schema;
            self.entry(place, has_schema)
        });
        entries.collect()
    }

    fn entry(&self, place: usize, has_schema: bool) -> Value {
        let tool = &self.tools[place];
        let parameters = has_schema.then_some(&tool.input_schema);
        let mut entry =
            json!({"name": tool.name, "serverName": self.server, "parameters": parameters});
        if let Some(description) = &tool.description {
            entry["description"] = json!(description);
        }
        entry
    }

    fn checked(&self, place: usize) -> &Checked {
        self.checked[place].get_or_init(|| {
            let parse = |has_schema| {
                let offered = OfferedTools::parse(&[self.entry(place, has_schema)])?;
                Ok::<_, crate::gate::OfferError>(Checked {
                    offered,
                    has_schema,
                })
            };
            let checked = parse(true).or_else(|_| parse(false));
            checked.unwrap_or_else(|_| Checked {
                offered: OfferedTools::default(),
                has_schema: false,
            })
        })
    }

    fn names(&self) -> OfferedTools {
        let tools = self.tools.iter();
        let named = tools.map(|tool| json!({"name": tool.name, "serverName": self.server}));
        OfferedTools::parse(&named.collect::<Vec<_>>()).unwrap_or_default()
    }
}
