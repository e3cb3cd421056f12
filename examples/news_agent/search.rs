//! A small search engine over the bundled news: BM25 over words, and a date filter.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::date::day_number;

/// How many articles one search returns at most.
const MOST_HITS: usize = 5;

/// How much a repeated word counts (BM25's k1).
const SATURATION: f64 = 1.2;

/// How much a long article is held back (BM25's b).
const LENGTH_WEIGHT: f64 = 0.75;

/// A word of the title counts as this many of the text.
const TITLE_WEIGHT: u16 = 2;

/// Words that say nothing about what an article is about.
const STOP_WORDS: [&str; 24] = [
    "an", "and", "are", "as", "at", "but", "by", "for", "from", "has", "in", "is", "it", "its",
    "of", "on", "or", "than", "that", "the", "this", "to", "was", "with",
];

/// The news, ready to be searched.
pub struct News {
    today: i64,
    articles: Vec<Indexed>,
    /// In how many articles a word occurs.
    spread: HashMap<String, u32>,
    mean_length: f64,
}

/// One article as it stands in the file.
#[derive(Deserialize)]
struct Article {
    id: String,
    date: String,
    title: String,
    text: String,
}

/// The first line of the file: the day on which all this takes place.
#[derive(Deserialize)]
struct Head {
    today: String,
}

struct Indexed {
    article: Article,
    day: i64,
    words: HashMap<String, u16>,
    length: f64,
}

impl News {
    /// Reads JSON lines: a head, then one article a line.
    ///
    /// # Errors
    /// Names the line that is not as it should be.
    pub fn parse(lines: &str) -> Result<Self, String> {
        let mut lines = lines.lines().zip(1..);
        let (head, _) = lines.next().ok_or("the news are empty")?;
        let head: Head =
            serde_json::from_str(head).map_err(|error| format!("news, line 1: {error}"))?;
        let today = day_number(&head.today)?;
        let mut articles = Vec::new();
        for (line, number) in lines {
            let article =
                serde_json::from_str(line).map_err(|error| format!("news, line {number}: {error}"));
            articles.push(Indexed::new(article?)?);
        }
        let mut spread = HashMap::new();
        for word in articles.iter().flat_map(|indexed| indexed.words.keys()) {
            *spread.entry(word.clone()).or_default() += 1;
        }
        let lengths: f64 = articles.iter().map(|indexed| indexed.length).sum();
        let mean_length = lengths / count(articles.len()).max(1.0);
        Ok(Self {
            today,
            articles,
            spread,
            mean_length,
        })
    }

    /// The best articles of the last `days` days, best first.
    pub fn search(&self, query: &str, days: u32) -> Value {
        let query: Vec<String> = words(query).collect();
        let earliest = self.today - i64::from(days);
        let mut hits: Vec<(f64, &Article)> = self
            .articles
            .iter()
            .filter(|indexed| (earliest..=self.today).contains(&indexed.day))
            .map(|indexed| (self.score(&query, indexed), &indexed.article))
            .filter(|(score, _)| *score > 0.0)
            .collect();
        hits.sort_by(|left, right| {
            right
                .0
                .total_cmp(&left.0)
                .then_with(|| left.1.id.cmp(&right.1.id))
        });
        hits.truncate(MOST_HITS);
        hits.into_iter()
            .map(|(score, article)| hit(score, article))
            .collect()
    }

    /// BM25.
    fn score(&self, query: &[String], indexed: &Indexed) -> f64 {
        let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * indexed.length / self.mean_length;
        let weight = |word: &String| {
            let times = f64::from(*indexed.words.get(word)?);
            let spread = f64::from(*self.spread.get(word)?);
            let rarity = (1.0 + (count(self.articles.len()) - spread + 0.5) / (spread + 0.5)).ln();
            Some(rarity * times * (SATURATION + 1.0) / (times + SATURATION * length))
        };
        query.iter().filter_map(weight).sum()
    }
}

impl Indexed {
    fn new(article: Article) -> Result<Self, String> {
        let mut found: HashMap<String, u16> = HashMap::new();
        for (text, weight) in [(&article.title, TITLE_WEIGHT), (&article.text, 1)] {
            for word in words(text) {
                *found.entry(word).or_default() += weight;
            }
        }
        Ok(Self {
            day: day_number(&article.date)?,
            length: found.values().copied().map(f64::from).sum(),
            words: found,
            article,
        })
    }
}

fn hit(score: f64, article: &Article) -> Value {
    json!({
        "id": article.id,
        "date": article.date,
        "title": article.title,
        "text": article.text,
        "score": (score * 100.0).round() / 100.0,
    })
}

/// The words of a text that count, in lower case and without the plural's `s`.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().nth(1).is_some())
        .map(str::to_lowercase)
        .filter(|word| !STOP_WORDS.contains(&word.as_str()))
        .map(|word| match word.strip_suffix('s') {
            Some(singular) if singular.len() > 2 && !singular.ends_with('s') => singular.to_owned(),
            _ => word,
        })
}

/// A number of articles, for reckoning with.
fn count(articles: usize) -> f64 {
    u32::try_from(articles).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWS: &str = include_str!("../../fixtures/news.jsonl");

    #[test]
    fn a_search_ranks_by_rare_words_and_leaves_out_what_is_old() {
        let news = News::parse(NEWS).unwrap();
        let titles = |query: &str, days: u32| -> Vec<String> {
            let hits = news.search(query, days);
            hits.as_array()
                .unwrap()
                .iter()
                .map(|hit| hit["title"].as_str().unwrap().to_owned())
                .collect()
        };
        assert!(
            titles("strawberry STRAWBERRIES robot", 7)[0].starts_with("Fernbrook's harvest robot")
        );
        assert!(titles("containers shipped to Vellmar port", 14)[0].starts_with("Port of Vellmar"));
        assert_eq!(titles("geothermal", 14), Vec::<String>::new());
        assert_eq!(titles("geothermal", 30).len(), 1);
        assert_eq!(titles("the of and", 30), Vec::<String>::new());
        assert_eq!(titles("", 30), Vec::<String>::new());
        assert_eq!(
            titles("storm", 0),
            ["Storm expected at the coast on Wednesday"]
        );
        assert_eq!(titles("hospital patients", 100).len(), 5);

        let hits = news.search("hospital patients", 100);
        let scores: Vec<f64> = hits
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["score"].as_f64().unwrap())
            .collect();
        assert!(
            scores.is_sorted_by(|left, right| left >= right),
            "{scores:?}"
        );
    }

    #[test]
    fn a_line_that_is_no_article_is_named() {
        let article =
            |date: &str| format!(r#"{{"id": "a", "date": "{date}", "title": "t", "text": "t"}}"#);
        let news = |line: &str| News::parse(&format!("{{\"today\": \"2026-03-16\"}}\n{line}"));
        assert!(news(&article("2026-03-15")).is_ok());
        assert!(
            news("{}")
                .err()
                .unwrap()
                .starts_with("news, line 2: missing field")
        );
        assert!(news(&article("yesterday")).is_err());
        assert!(News::parse("").is_err());
    }
}
