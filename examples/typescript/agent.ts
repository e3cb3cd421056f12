// The agent of both examples: its tools, the program that its model wrote, and its command line.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { z } from "zod";

import { tool, ToolCallbacks } from "./tool_callbacks.ts";

type Weather = { sky: "sunny" | "rainy"; degrees: number };

const WEATHER: Record<string, Weather> = {
  Lisbon: { sky: "sunny", degrees: 24 },
  Oslo: { sky: "rainy", degrees: 11 },
  Quito: { sky: "sunny", degrees: 19 },
};

const listCities = tool("list_cities", "The cities where we have hotels.", z.object({}), () => [
  "Atlantis",
  ...Object.keys(WEATHER),
]);

const forecast = tool(
  "forecast",
  "Tomorrow's weather in a city.",
  z.object({ city: z.string() }),
  async ({ city }, signal): Promise<Weather> => {
    const weather = WEATHER[city];
    // The station of a city that we do not know takes an hour to answer, if nobody stops it.
    await sleep(weather ? 300 : 3_600_000, undefined, { signal });
    if (!weather) throw new Error(`no weather station in ${city}`);
    return weather;
  },
);

const tried = new Set<string>();

const bookRoom = tool(
  "book_room",
  "Books rooms for one night. The hotels' line may be busy: try again.",
  z.object({ city: z.string(), guests: z.int().default(1) }),
  ({ city, guests }) => {
    const first = !tried.has(city);
    tried.add(city);
    if (first) throw new Error("the line is busy");
    return { confirmation: `${city.toUpperCase()}-${guests}` };
  },
);

export const callbacks = new ToolCallbacks([listCities, forecast, bookRoom].map(shown));

/** What the model wrote: all forecasts at once, then rooms where the sun shines. */
export const program = `
import asyncio

async def weather(city):
    try:
        return await asyncio.wait_for(forecast.aio(city=city), timeout=2)
    except TimeoutError:
        print(f"no weather from {city}")

async def book(city):
    for attempt in range(3):
        try:
            return (await book_room.aio(city=city, guests=2))["confirmation"]
        except ToolCallError as error:
            print(f"{city}: {error.message}")

cities = list_cities()
found = dict(zip(cities, await asyncio.gather(*map(weather, cities))))
sunny = [city for city in cities if found[city] and found[city]["sky"] == "sunny"]
dict(zip(sunny, await asyncio.gather(*map(book, sunny))))
`;

/** How to reach callgate: at a URL, or by starting it. */
export type Callgate = { url: URL } | { command: string; args: string[] };

/** Reads `--http URL`, or a command with its arguments behind `--`. */
export function readArguments(): Callgate {
  const { values, positionals } = parseArgs({ options: { http: { type: "string" } }, allowPositionals: true });
  if (values.http) return { url: new URL(values.http) };
  const [command = process.env.CALLGATE_BIN ?? "callgate", ...args] = positionals;
  return { command, args };
}

/** Lets one see the calls of a tool. */
function shown({ offered, call }: ReturnType<typeof tool>) {
  return {
    offered,
    async call(input: unknown, signal: AbortSignal) {
      const name = `${offered.name}(${JSON.stringify(input)})`;
      signal.addEventListener("abort", () => console.log(`${name}: stopped, ${signal.reason.message}`));
      const result = await call(input, signal);
      console.log(`${name} -> ${JSON.stringify(result)}`);
      return result;
    },
  };
}
