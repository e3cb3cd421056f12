//! How large a JSON schema is once its references are followed.
//!
//! A validator goes where references lead. A few hundred bytes of them can lead round in circles, or to
//! more places than could ever be visited; that is told here, before anything goes there.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use petgraph::{
    Direction,
    algo::{kosaraju_scc, toposort},
    graph::{DiGraph, NodeIndex},
    visit::{EdgeFiltered, EdgeRef as _},
};
use serde_json::{Map, Value};

/// Schemas, and values in `enum`, that there may be once all references are followed.
const MOST: u64 = 50_000;

/// References and nested schemas that may follow on each other.
const LONGEST: u64 = 500;

/// What a pattern that looks around itself, or back, may cost: it is tried step by step.
const COSTLY_PATTERN: u64 = 40_000;

/// What a schema comes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unfolding {
    /// Schemas in it, with all references followed but those that lead back to where they come from.
    pub(super) size: u64,
    /// How many follow on each other at most.
    pub(super) height: u64,
    /// References that lead back.
    pub(super) returns: u64,
    /// Whether an error may be told with those of many branches.
    pub(super) has_branches: bool,
}

/// How one schema leads to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is about the same value.
    Same,
    /// It is about a value inside.
    Inside,
    /// It is about names or about what others left over; validators resolve these without noticing circles.
    Aside,
}

/// Measures a schema.
///
/// # Errors
/// When it leads round in circles or to too many places.
pub(super) fn measure(schema: &Value) -> Result<Unfolding, String> {
    let graph = Graph::of(schema)?;
    graph.check_circles()?;
    graph.unfold()
}

struct Graph<'a> {
    document: &'a Value,
    nodes: DiGraph<&'a Value, Step>,
    known: HashMap<*const Value, NodeIndex>,
    /// The schema whose address relative references start from.
    bases: HashMap<NodeIndex, &'a Value>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    addresses: HashMap<&'a str, &'a Value>,
    has_branches: bool,
}

impl<'a> Graph<'a> {
    fn of(document: &'a Value) -> Result<Self, String> {
        let mut graph = Self {
            document,
            nodes: DiGraph::new(),
            known: HashMap::new(),
            bases: HashMap::new(),
            anchors: HashMap::new(),
            addresses: HashMap::new(),
            has_branches: false,
        };
        graph.find_anchors();
        graph.node(document, document);
        let mut next = 0;
        while next < graph.nodes.node_count() {
            graph.follow(NodeIndex::new(next))?;
            next += 1;
        }
        Ok(graph)
    }

    /// Anything may be referred to, so every object of the document is looked at.
    fn find_anchors(&mut self) {
        let mut waiting = vec![self.document];
        while let Some(value) = waiting.pop() {
            let Value::Object(members) = value else {
                waiting.extend(value.as_array().into_iter().flatten());
                continue;
            };
            for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                if let Some(Value::String(name)) = members.get(keyword) {
                    let name = name.trim_start_matches('#');
                    self.anchors.entry(name).or_default().push(value);
                    self.addresses
                        .entry(name.trim_end_matches('#'))
                        .or_insert(value);
                }
            }
            if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                self.anchors.entry("").or_default().push(value);
            }
            waiting.extend(members.values());
        }
    }

    fn node(&mut self, schema: &'a Value, base: &'a Value) -> NodeIndex {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        let has_address = |keyword| {
            let id = schema.get(keyword).and_then(Value::as_str);
            id.is_some_and(|id| !id.starts_with('#'))
        };
        let is_base = has_address("$id") || has_address("id");
        let node = self.nodes.add_node(schema);
        self.known.insert(std::ptr::from_ref(schema), node);
        self.bases.insert(node, if is_base { schema } else { base });
        node
    }

    fn lead(&mut self, from: NodeIndex, to: &'a Value, step: Step) -> Result<(), String> {
        if self.nodes.edge_count() as u64 > MOST {
            return Err(too_large());
        }
        let base = self.bases.get(&from).copied().unwrap_or(self.document);
        let to = self.node(to, base);
        self.nodes.add_edge(from, to, step);
        Ok(())
    }

    /// Adds what a schema leads to.
    fn follow(&mut self, from: NodeIndex) -> Result<(), String> {
        let Value::Object(members) = self.nodes[from] else {
            return Ok(());
        };
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    for target in self.targets(from, keyword, reference) {
                        self.lead(from, target, Step::Same)?;
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                    self.has_branches |= keyword != "allOf";
                    self.lead_to_all(from, branches, Step::Same)?;
                }
                ("not" | "if" | "then" | "else", _) => self.lead(from, value, Step::Same)?,
                ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                    self.lead_to_all(from, schemas.values(), Step::Same)?;
                }
                ("properties" | "patternProperties", Value::Object(schemas)) => {
                    self.lead_to_all(from, schemas.values(), Step::Inside)?;
                }
                ("items" | "prefixItems", Value::Array(schemas)) => {
                    self.lead_to_all(from, schemas, Step::Inside)?;
                }
                ("items" | "additionalItems" | "contains" | "additionalProperties", _) => {
                    self.lead(from, value, Step::Inside)?;
                }
                ("propertyNames" | "unevaluatedItems" | "unevaluatedProperties", _) => {
                    self.lead(from, value, Step::Aside)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn lead_to_all(
        &mut self,
        from: NodeIndex,
        schemas: impl IntoIterator<Item = &'a Value>,
        step: Step,
    ) -> Result<(), String> {
        schemas
            .into_iter()
            .try_for_each(|to| self.lead(from, to, step))
    }

    /// Where a reference may lead. One that leads out of the document leads nowhere that could lead back.
    fn targets(&self, from: NodeIndex, keyword: &str, reference: &str) -> Vec<&'a Value> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = if address.is_empty() {
            self.bases.get(&from).copied().unwrap_or(self.document)
        } else {
            let of_address =
                |(name, _): &(&&str, _)| name.ends_with(address) || address.ends_with(**name);
            match self
                .addresses
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .find(of_address)
            {
                Some((_, base)) => base,
                None => return Vec::new(),
            }
        };
        if keyword == "$recursiveRef" {
            let anchored = self.anchors.get("").into_iter().flatten().copied();
            return anchored.chain([base]).collect();
        }
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment).cloned().unwrap_or_default();
        }
        let pointer = percent_decode_str(fragment).decode_utf8_lossy();
        let target = base
            .pointer(&pointer)
            .or_else(|| self.document.pointer(&pointer));
        // One that leads nowhere is the compiler's to complain about.
        target.into_iter().collect()
    }

    fn check_circles(&self) -> Result<(), String> {
        let same = EdgeFiltered::from_fn(&self.nodes, |edge| *edge.weight() == Step::Same);
        if toposort(&same, None).is_err() {
            return Err("it refers to itself without going into the value".to_owned());
        }
        let mut circle = HashMap::new();
        for (number, nodes) in kosaraju_scc(&self.nodes).into_iter().enumerate() {
            circle.extend(nodes.into_iter().map(|node| (node, number)));
        }
        let is_aside_in_a_circle = self.nodes.edge_references().any(|edge| {
            *edge.weight() == Step::Aside
                && circle.get(&edge.source()) == circle.get(&edge.target())
        });
        if is_aside_in_a_circle {
            return Err(
                "it refers to itself by way of `propertyNames`, `unevaluatedItems` or `unevaluatedProperties`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Walks the schema depth first, without recursion of its own.
    fn unfold(&self) -> Result<Unfolding, String> {
        let root = NodeIndex::new(0);
        let mut walk = vec![Visit::begin(self, root)];
        let mut on_path = HashSet::from([root]);
        let mut measured: HashMap<NodeIndex, (u64, u64)> = HashMap::new();
        let mut returns = 0;
        while let Some(visit) = walk.last_mut() {
            let Some(target) = visit.targets.pop() else {
                let (node, size, height) = (visit.node, visit.size, visit.height);
                if size > MOST || height > LONGEST {
                    return Err(too_large());
                }
                measured.insert(node, (size, height));
                on_path.remove(&node);
                walk.pop();
                if let Some(above) = walk.last_mut() {
                    above.add((size, height));
                }
                continue;
            };
            if on_path.contains(&target) {
                returns += 1;
                visit.add((1, 1));
            } else if let Some(known) = measured.get(&target) {
                visit.add(*known);
            } else if walk.len() as u64 > LONGEST {
                return Err(too_large());
            } else {
                on_path.insert(target);
                walk.push(Visit::begin(self, target));
            }
        }
        let (size, height) = measured.get(&root).copied().unwrap_or((1, 1));
        Ok(Unfolding {
            size,
            height,
            returns,
            has_branches: self.has_branches,
        })
    }
}

/// A schema on the way of the walk.
struct Visit {
    node: NodeIndex,
    targets: Vec<NodeIndex>,
    size: u64,
    /// How many follow on each other at most.
    height: u64,
}

impl Visit {
    fn begin(graph: &Graph<'_>, node: NodeIndex) -> Self {
        let targets = graph.nodes.neighbors_directed(node, Direction::Outgoing);
        Self {
            node,
            targets: targets.collect(),
            size: graph.nodes[node].as_object().map_or(1, own_size),
            height: 1,
        }
    }

    fn add(&mut self, (size, height): (u64, u64)) {
        self.size = self.size.saturating_add(size);
        self.height = self.height.max(height + 1);
    }
}

/// The size of a schema without those in it.
fn own_size(schema: &Map<String, Value>) -> u64 {
    let listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .map_or(0, Vec::len) as u64;
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flat_map(Map::keys).map(String::as_str);
    let patterns = patterns.chain(schema.get("pattern").and_then(Value::as_str));
    let costly = patterns.filter(|pattern| is_costly(pattern)).count() as u64;
    1 + listed + COSTLY_PATTERN * costly
}

/// Whether a pattern looks around or back; all others take time with the length of the text alone.
fn is_costly(pattern: &str) -> bool {
    let looks_around = ["(?=", "(?!", "(?<", "(?>", "(?("];
    let looks_back = pattern
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'\\' && matches!(pair[1], b'1'..=b'9' | b'k' | b'g'));
    looks_back || looks_around.iter().any(|sign| pattern.contains(sign))
}

fn too_large() -> String {
    format!(
        "with its references followed it has more than {MOST} schemas, or more than {LONGEST} inside each other"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::measure;

    /// `levels` definitions, each made from the one before it.
    fn levels(levels: usize, make: impl Fn(Value) -> Value) -> Value {
        let reference = |number: usize| json!({"$ref": format!("#/$defs/d{number}")});
        let mut definitions =
            serde_json::Map::from_iter([("d0".to_owned(), json!({"type": "string"}))]);
        for number in 1..=levels {
            definitions.insert(format!("d{number}"), make(reference(number - 1)));
        }
        json!({"properties": {"a": reference(levels)}, "$defs": definitions})
    }

    #[test]
    fn what_people_write_is_measured() {
        let tree = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {
            "type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            "additionalProperties": false}}});
        let any_json = json!({"$defs": {"j": {"anyOf": [{"type": "string"},
            {"type": "array", "items": {"$ref": "#/$defs/j"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/j"}}]}},
            "properties": {"value": {"$ref": "#/$defs/j"}}});
        let expression = json!({"$defs": {
            "add": {"properties": {"kind": {"const": "add"}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}},
            "mul": {"properties": {"kind": {"const": "mul"}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}},
            "e": {"oneOf": [{"$ref": "#/$defs/add"}, {"$ref": "#/$defs/mul"}, {"type": "number"}]}},
            "properties": {"e": {"$ref": "#/$defs/e"}}});
        let anchored = json!({"$defs": {"x": {"$anchor": "x", "type": "string"}}, "properties": {"a": {"$ref": "#x"}}});
        let encoded = json!({"definitions": {"a/b c": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/a~1b%20c"}}});
        let meta = json!({"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}});
        let named = json!({"$id": "https://example.com/root.json", "properties": {"a": {"$ref": "item.json#/$defs/x"}},
            "$defs": {"item": {"$id": "item.json", "$defs": {"x": {"type": "string"}}}}});
        let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}},
            "properties": {"x": {"$ref": "#/definitions/a", "description": "An x."}}, "dependencies": {"x": ["y"]}});
        let closed = json!({"properties": {"a": {}}, "unevaluatedProperties": false, "propertyNames": {"pattern": "^[a-z]"}});
        for schema in [
            tree, any_json, expression, anchored, encoded, meta, named, old, closed,
        ] {
            let measured = measure(&schema);
            assert!(
                measured.as_ref().is_ok_and(|it| it.size < 100),
                "{schema}: {measured:?}"
            );
            assert!(jsonschema::validator_for(&schema).is_ok(), "{schema}");
        }
    }

    #[test]
    fn references_that_multiply_are_refused() {
        let pair = |keyword: &'static str| move |inner: Value| json!({keyword: [inner, inner]});
        for keyword in ["allOf", "anyOf", "oneOf"] {
            assert!(measure(&levels(10, pair(keyword))).is_ok());
            assert!(measure(&levels(20, pair(keyword))).is_err(), "{keyword}");
        }
        let crossed = levels(
            20,
            |inner| json!({"properties": {"a": inner}, "patternProperties": {"a": inner}}),
        );
        assert!(measure(&crossed).is_err());
        assert!(measure(&levels(300, |inner| inner)).is_ok());
        assert!(measure(&levels(5000, |inner| inner)).is_err());
        let wide: Vec<Value> = (0..60_000).map(Value::from).collect();
        assert!(measure(&json!({"enum": wide})).is_err());
    }

    #[test]
    fn circles_that_never_end_are_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"propertyNames": {"$ref": "#"}}),
            json!({"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]}),
            json!({"$recursiveAnchor": true, "anyOf": [{"$recursiveRef": "#"}]}),
            json!({"properties": {"a": {"propertyNames": {"$ref": "#"}}}}),
            json!({"properties": {"a": {"unevaluatedProperties": {"$ref": "#"}}}}),
        ] {
            assert!(measure(&schema).is_err(), "{schema}");
        }
    }
}
