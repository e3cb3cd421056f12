//! The resources.

use rmcp::{
    ErrorData,
    model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use crate::{content::PNG, skills};

/// A resource that can be watched. It never changes: no suite asks for that.
const WATCHED: &str = "test://watched-resource";

/// All resources, the files of skills among them.
pub fn list() -> Vec<Resource> {
    let resource = |uri, name, description, mime_type| {
        Resource::new(uri, name)
            .with_description(description)
            .with_mime_type(mime_type)
    };
    let mut resources = vec![
        resource("test://static-text", "text", "A text", "text/plain"),
        resource("test://static-binary", "image", "An image", "image/png"),
        resource(WATCHED, "watched", "Can be watched", "text/plain"),
    ];
    resources.extend(skills::files());
    resources
}

/// The resources that there is one of for every id.
pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "data")
            .with_description("Something of an id")
            .with_mime_type("application/json"),
    ]
}

/// What a resource holds.
pub fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
        }
        "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        WATCHED => ResourceContents::text("Nothing has happened yet.", uri),
        _ => {
            let data = template_id(uri).map(
                |id| json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}),
            );
            let contents = data.map(|data| {
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            });
            contents
                .or_else(|| skills::read(uri))
                .ok_or_else(|| not_found(uri))?
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Whether somebody may watch a resource.
pub fn watch(uri: &str) -> Result<(), ErrorData> {
    read(uri).map(|_| ())
}

fn template_id(uri: &str) -> Option<&str> {
    let id = uri
        .strip_prefix("test://template/")?
        .strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))
}
