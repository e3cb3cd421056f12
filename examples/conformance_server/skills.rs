//! One skill of two files, served as resources and listed as a skill (SEP-2640).

use rmcp::{
    ErrorData,
    model::{
        DIRECTORY_MIME_TYPE, GetSkillResult, ListResourcesResult, Resource, ResourceContents,
        Skill, SkillFrontmatter, SkillResource, SkillResources,
    },
};

/// The folder of the skill.
const FOLDER: &str = "skill://haiku";

const NAME: &str = "haiku";
const DESCRIPTION: &str = "Write a haiku, and count its syllables";

const SKILL: &str = "---\n\
    name: haiku\n\
    description: Write a haiku, and count its syllables\n\
    ---\n\
    \n\
    Three lines. [references/COUNTING.md](references/COUNTING.md) says how long they are.\n";

const COUNTING: &str = "Five, seven and five.\n";

const SKILL_FILE: &str = "skill://haiku/SKILL.md";
const COUNTING_FILE: &str = "skill://haiku/references/COUNTING.md";

fn markdown(uri: &str, name: &str, description: &str) -> Resource {
    Resource::new(uri, name)
        .with_description(description)
        .with_mime_type("text/markdown")
}

fn skill_file() -> Resource {
    markdown(SKILL_FILE, NAME, DESCRIPTION)
}

fn counting_file() -> Resource {
    markdown(COUNTING_FILE, "COUNTING.md", "How syllables are counted")
}

/// The skill's files.
pub fn files() -> Vec<Resource> {
    vec![skill_file(), counting_file()]
}

/// What a file of the skill holds.
pub fn read(uri: &str) -> Option<ResourceContents> {
    let text = match uri {
        SKILL_FILE => SKILL,
        COUNTING_FILE => COUNTING,
        _ => return None,
    };
    Some(ResourceContents::text(text, uri).with_mime_type("text/markdown"))
}

/// The skill.
pub fn skill() -> Skill {
    let files = vec![
        SkillResource::from_bytes(SKILL_FILE, SKILL.as_bytes()),
        SkillResource::from_bytes(COUNTING_FILE, COUNTING.as_bytes()),
    ];
    Skill::new(
        SKILL_FILE,
        SkillFrontmatter::new(NAME, DESCRIPTION),
        SkillResources::Files(files),
    )
}

/// The skill by its URI.
pub fn get(uri: &str) -> Result<GetSkillResult, ErrorData> {
    if uri == SKILL_FILE {
        return Ok(GetSkillResult::new(skill()));
    }
    let message = format!("there is no skill at {uri}");
    Err(ErrorData::invalid_params(message, None))
}

/// What is in a folder of the skill.
pub fn read_folder(uri: &str) -> Result<ListResourcesResult, ErrorData> {
    let children = match uri {
        FOLDER => {
            let references = Resource::new("skill://haiku/references", "references")
                .with_mime_type(DIRECTORY_MIME_TYPE);
            vec![skill_file(), references]
        }
        "skill://haiku/references" => vec![counting_file()],
        _ => {
            let message = format!("{uri} is not a folder");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(ListResourcesResult::with_all_items(children))
}
