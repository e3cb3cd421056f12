//! `callgate image`: build, list, show, remove.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use bytesize::ByteSize;
use clap::Subcommand;

use super::{Options, Problem, progress::Bar};
use crate::image::{self, Condition, DEFAULT_NAME, Image, Listed, Store, default_preimports};

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image, or make sure that it is there
    Build {
        /// The image's name
        #[arg(long, default_value = DEFAULT_NAME)]
        name: String,
        /// A module to import before the snapshot, beyond those of the default image (may be repeated)
        #[arg(long, value_name = "MODULE", value_delimiter = ',')]
        preimport: Vec<String>,
        /// Build even if it is there
        #[arg(long)]
        force: bool,
    },
    /// List the images
    List {
        /// Hash every file and report damage
        #[arg(long)]
        verify: bool,
    },
    /// Show one image: what it is made of, what it has imported
    Show {
        /// The image's name
        #[arg(default_value = DEFAULT_NAME)]
        name: String,
    },
    /// Remove an image
    Remove {
        /// The image's name
        name: String,
    },
}

/// Does it.
pub(super) fn execute(command: ImageCommand, options: &Options) -> Result<ExitCode, Problem> {
    let store = Store::open(options.cache())?;
    match command {
        ImageCommand::Build {
            name,
            preimport,
            force,
        } => build(&store, options, &name, preimport, force),
        ImageCommand::List { verify } => list(&store, verify),
        ImageCommand::Show { name } => show(&store, &name),
        ImageCommand::Remove { name } => {
            Image::remove(&store, &name)?;
            eprintln!("removed {name}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn build(
    store: &Store,
    options: &Options,
    name: &str,
    preimport: Vec<String>,
    force: bool,
) -> Result<ExitCode, Problem> {
    let mut recipe = options.recipe(name);
    if !preimport.is_empty() {
        if name == DEFAULT_NAME {
            return Err(
                "the default image has its own list of imports; give yours a name with --name"
                    .into(),
            );
        }
        recipe.preimports = Some(default_preimports().into_iter().chain(preimport).collect());
    }
    if force {
        Image::forget(store, name)?;
    }
    let start = Instant::now();
    let image = Image::ensure(store, &recipe, &Bar::new())?;
    eprintln!(
        "image {} is ready after {:.1} s",
        image.name,
        start.elapsed().as_secs_f64()
    );
    println!("{}", image.folder.display());
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, verify: bool) -> Result<ExitCode, Problem> {
    let images = image::list(store, verify)?;
    if images.is_empty() {
        eprintln!(
            "no images in {}; `callgate image build` makes the default one",
            store.root().display()
        );
    }
    for image in &images {
        println!(
            "{:<16} {:<11} {:>10}  {}",
            image.name,
            condition(image.condition),
            ByteSize(image.bytes).to_string(),
            age(image.built)
        );
    }
    let damaged = images
        .iter()
        .any(|image| image.condition == Condition::Damaged);
    if damaged {
        eprintln!("a damaged image is made again with `callgate image build --force --name NAME`");
    }
    Ok(if damaged {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn show(store: &Store, name: &str) -> Result<ExitCode, Problem> {
    let images: Vec<Listed> = image::list(store, false)?
        .into_iter()
        .filter(|image| image.name == name)
        .collect();
    if images.is_empty() {
        return Err(format!(
            "there is no image named `{name}`; `callgate image list` shows what there is"
        )
        .into());
    }
    for image in images {
        println!("name:       {}", image.name);
        println!("state:      {}", condition(image.condition));
        println!("built:      {}", age(image.built));
        println!(
            "size:       {} (the compiled CPython is shared by all images)",
            ByteSize(image.bytes)
        );
        println!("folder:     {}", image.folder.display());
        println!("imported:   {}", image.preimports.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}

/// One word for a listing.
pub(super) fn condition(condition: Condition) -> &'static str {
    match condition {
        Condition::Ready => "ready",
        Condition::Outdated => "outdated",
        Condition::Incomplete => "incomplete",
        Condition::Damaged => "damaged",
    }
}

fn age(built: u64) -> String {
    if built == 0 {
        return "unknown".to_owned();
    }
    let built = std::time::UNIX_EPOCH + Duration::from_secs(built);
    let age = built.elapsed().unwrap_or_default().as_secs();
    match age {
        0..60 => format!("{age} s ago"),
        60..3600 => format!("{} min ago", age / 60),
        3600..86_400 => format!("{} h ago", age / 3600),
        _ => format!("{} days ago", age / 86_400),
    }
}
