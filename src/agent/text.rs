//! Results of tools as a model reads them.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The text of a result. What is no text is named with its kind and size.
#[must_use]
pub fn of_result(result: &CallToolResult) -> String {
    let parts: Vec<String> = result.content.iter().map(of_block).collect();
    match (&result.structured_content, parts.is_empty()) {
        (Some(structured), true) => structured.to_string(),
        (None, true) => "(no content)".to_owned(),
        _ => parts.join("\n"),
    }
}

fn of_block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => binary("image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => binary("audio", Some(&audio.mime_type), &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents {
                mime_type,
                blob,
                uri,
                ..
            } => binary(uri, mime_type.as_deref(), blob),
            _ => "[a resource]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.name, link.uri),
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// `data` is base64.
fn binary(what: &str, mime_type: Option<&str>, data: &str) -> String {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (data.len() * 3 / 4).saturating_sub(padding);
    let kind = mime_type.unwrap_or("unknown type");
    format!("[{what}, {kind}, {bytes} bytes; it can't be shown here]")
}

/// The text, if it has at most `longest` characters; else its beginning and its end.
#[must_use]
pub fn cut(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let head: String = text.chars().take(longest * 3 / 4).collect();
    let tail: String = text.chars().skip(length - longest / 4).collect();
    let left_out = length - head.chars().count() - tail.chars().count();
    format!(
        "{head}\n[… {left_out} characters are left out here; ask for less, or for a part …]\n{tail}"
    )
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock};
    use serde_json::json;

    use super::{cut, of_result};

    #[test]
    fn what_is_no_text_is_named() {
        let image = ContentBlock::image("AAAA", "image/png");
        let result = CallToolResult::success(vec![ContentBlock::text("a"), image]);
        assert_eq!(
            of_result(&result),
            "a\n[image, image/png, 3 bytes; it can't be shown here]"
        );
        assert_eq!(
            of_result(&CallToolResult::success(Vec::new())),
            "(no content)"
        );
        let mut structured = CallToolResult::structured(json!({"x": 1}));
        structured.content = Vec::new();
        assert_eq!(of_result(&structured), r#"{"x":1}"#);
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(cut("äöü", 3), "äöü");
        let text = cut(&format!("begin{}end", "ü".repeat(1000)), 100);
        assert!(text.starts_with("begin") && text.ends_with("end"), "{text}");
        assert!(text.contains("908 characters"), "{text}");
    }
}
