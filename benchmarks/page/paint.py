"""First paint, weight and requests of the page in five fresh browsers, with a question open."""

import statistics

from benchmarks.page._fleet import fleet_with_page, run
from treadle.serve.tokens import Tokens

FOUND = """() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return [
    performance.getEntriesByName("first-contentful-paint")[0].startTime,
    all.reduce((sum, each) => sum + each.encodedBodySize, 0) / 1000,
    all.reduce((sum, each) => sum + each.decodedBodySize, 0) / 1000,
  ];
}"""


async def paint() -> None:
    async with fleet_with_page() as bench:
        order = await bench.nobody_runs("fix it")
        figures, others = [], set()
        for _ in range(5):
            context = await bench.browser.new_context(viewport={"width": 1440, "height": 900})
            page = await context.new_page()
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            await page.goto(f"{bench.address}/#{Tokens().link('', 'all')}")
            await page.wait_for_selector(f'.row[data-id="{order}"]', timeout=60_000)
            await page.evaluate(f"location.hash = '#/order/{order}'")
            await page.wait_for_selector(".composer", timeout=60_000)
            await page.wait_for_load_state("networkidle")
            figures.append((*await page.evaluate(FOUND), len(asked)))
            others |= {url for url in asked if not url.startswith((bench.address, "data:"))}
            await context.close()
        first, packed, plain, requests = (statistics.median(each) for each in zip(*figures, strict=True))
        print(f"first paint {first:.0f} ms (goal 200)")
        print(f"{packed:.1f} KB compressed (goal 60), {plain:.1f} KB plain (goal 150)")
        print(f"{requests:.0f} requests (goal 15), {len(others)} to other hosts (goal 0)")


def main() -> None:
    run(paint)
