"""Ten medium tasks: several files that depend on each other, several steps, rules to keep."""

from evals.task import Task, task

SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": '''
    """The cart: items with a price in cents and a quantity."""

    from shop.discount import discount


    class Cart:
        def __init__(self):
            self.items = []

        def add(self, name, price, quantity=1):
            self.items.append((name, price, quantity))

        def subtotal(self):
            return sum(price for _, price, quantity in self.items)

        def total(self):
            return self.subtotal() - discount(self.subtotal())
    ''',
    "shop/discount.py": '''
    """From 100 EUR on, ten percent off. All in cents."""

    LIMIT = 10_000


    def discount(subtotal):
        if subtotal > LIMIT:
            return subtotal // 10
        return 0
    ''',
    "test_shop.py": """
    from shop.cart import Cart
    from shop.discount import discount


    def test_quantity_counts():
        cart = Cart()
        cart.add("pen", 150, 3)
        assert cart.subtotal() == 450


    def test_discount_begins_at_the_limit():
        assert discount(10_000) == 1_000
        assert discount(9_999) == 0


    def test_total():
        cart = Cart()
        cart.add("lamp", 5_000, 2)
        assert cart.total() == 9_000
    """,
}

MEDIUM: tuple[Task, ...] = (
    task(
        "medium-create",
        "medium",
        "create",
        """Make count.py, a command line program. `python3 count.py FILE` prints the number of lines, words and
        characters of the file, separated by single spaces. With --words it prints only the number of words. For a file
        that does not exist it prints a message to stderr and exits with code 2.""",
        files={"sample.txt": "one two three\nfour five\n"},
        check="""
        assert output("python3 count.py sample.txt").strip() == "2 5 24", output("python3 count.py sample.txt 2>&1")
        assert output("python3 count.py --words sample.txt").strip() == "5"
        assert run("python3 count.py gone.txt") == 2 and output("python3 count.py gone.txt") == ""
        """,
        solution="""
        cat > count.py <<'END'
        import argparse
        import sys

        parser = argparse.ArgumentParser()
        parser.add_argument("file")
        parser.add_argument("--words", action="store_true")
        options = parser.parse_args()
        try:
            text = open(options.file).read()
        except OSError as error:
            print(error, file=sys.stderr)
            sys.exit(2)
        words = len(text.split())
        print(words if options.words else f"{len(text.splitlines())} {words} {len(text)}")
        END
        """,
    ),
    task(
        "medium-fix",
        "medium",
        "fix",
        "Some tests in test_shop.py fail. Fix the code in shop/ so that all pass. Do not change the tests.",
        files=SHOP,
        check="""
        assert git("diff", "evals-begin", "--", "test_shop.py") == "", "the tests were changed"
        assert tests_pass("test_shop")
        from shop.cart import Cart
        cart = Cart()
        cart.add("pen", 7, 2); cart.add("lamp", 20_000)
        assert cart.subtotal() == 20_014 and cart.total() == 20_014 - 2_001
        """,
        solution="""
        sed -i 's/sum(price for/sum(price * quantity for/' shop/cart.py
        sed -i 's/subtotal > LIMIT/subtotal >= LIMIT/' shop/discount.py
        """,
    ),
    task(
        "medium-rename",
        "medium",
        "rename",
        """The setting time_out is to be called timeout_seconds from now on: in settings.py, wherever it is used, in
        config.toml and in the README. Nothing may still know the old name.""",
        files={
            "settings.py": """
            import tomllib

            with open("config.toml", "rb") as file:
                _table = tomllib.load(file)

            time_out = _table["time_out"]
            retries = _table["retries"]
            """,
            "client.py": """
            import settings


            def wait(attempt):
                return settings.time_out * (attempt + 1)
            """,
            "server.py": """
            from settings import retries, time_out


            def patience():
                return time_out * retries
            """,
            "config.toml": "time_out = 5\nretries = 3\n",
            "README.md": "# Client\n\nSet `time_out` in config.toml to the seconds to wait.\n",
        },
        check="""
        import client, server, settings
        assert client.wait(1) == 10 and server.patience() == 15 and settings.timeout_seconds == 5
        for path in ("settings.py", "client.py", "server.py", "config.toml", "README.md"):
            assert "time_out" not in read(path), path
        assert "timeout_seconds" in read("README.md") and "timeout_seconds = 5" in read("config.toml")
        """,
        solution="sed -i 's/time_out/timeout_seconds/g' *.py config.toml README.md",
    ),
    task(
        "medium-extract",
        "medium",
        "extract",
        """geometry.py has grown. Move the class Circle and the class Square into a new module shapes.py, and let
        geometry.py import them from there, so that both `from geometry import Circle` and `from shapes import Circle`
        work and are the same class. total_area stays in geometry.py.""",
        files={
            "geometry.py": """
            import math


            class Circle:
                def __init__(self, radius):
                    self.radius = radius

                def area(self):
                    return math.pi * self.radius**2


            class Square:
                def __init__(self, side):
                    self.side = side

                def area(self):
                    return self.side**2


            def total_area(shapes):
                return sum(shape.area() for shape in shapes)
            """,
            "main.py": """
            from geometry import Circle, Square, total_area

            print(round(total_area([Circle(1), Square(2)]), 2))
            """,
        },
        check="""
        import geometry, shapes
        assert geometry.Circle is shapes.Circle and geometry.Square is shapes.Square
        assert output("python3 main.py").strip() == "7.14"
        assert "class " not in read("geometry.py") and "def total_area" not in read("shapes.py")
        """,
        solution="""
        sed -n '1,17p' geometry.py > shapes.py
        sed -i '1,19d; $!b' geometry.py
        sed -i '1i from shapes import Circle, Square\\n\\n' geometry.py
        """,
    ),
    task(
        "medium-test",
        "medium",
        "test",
        """Write test_version.py with functions that begin with test_ for parse and newer in version.py. Cover versions
        of different length, numbers with several digits, and what is not a version.""",
        files={
            "version.py": '''
            def parse(text):
                """`1.10.2` as (1, 10, 2); a ValueError for anything else."""
                parts = text.split(".")
                if not all(part.isdigit() for part in parts):
                    raise ValueError(text)
                return tuple(int(part) for part in parts)


            def newer(first, second):
                """Whether the first version is newer; 1.0 and 1.0.0 are the same."""
                a, b = parse(first), parse(second)
                size = max(len(a), len(b))
                return a + (0,) * (size - len(a)) > b + (0,) * (size - len(b))
            '''
        },
        check="""
        assert tests_pass("test_version"), "the tests do not pass"
        right = read("version.py")
        for old, new in (
            ("tuple(int(part) for part in parts)", "tuple(parts)"),
            ("raise ValueError(text)", "return (0,)"),
            ("a + (0,) * (size - len(a)) > b + (0,) * (size - len(b))", "a > b"),
            (" > b + ", " >= b + "),
        ):
            assert old in right
            write("version.py", right.replace(old, new))
            assert not tests_pass("test_version"), f"the tests do not notice: {new}"
        """,
        solution="""
        cat > test_version.py <<'END'
        from version import newer, parse


        def test_parse():
            assert parse("1.10.2") == (1, 10, 2)
            try:
                parse("1.x")
            except ValueError:
                return
            raise AssertionError


        def test_newer():
            assert newer("1.10", "1.9") and newer("1.0.1", "1.0")
            assert not newer("1.0.0", "1.0") and not newer("1.0", "1.0.0") and not newer("1.0", "1.0")
        END
        """,
    ),
    task(
        "medium-find",
        "medium",
        "find",
        """With which number of workers does the server start when it is run as `python3 server.py --profile night`?
        Tell me the number and where it comes from. Change nothing.""",
        files={
            "server.py": """
            import sys

            from config.load import load

            profile = sys.argv[sys.argv.index("--profile") + 1] if "--profile" in sys.argv else "day"
            settings = load(profile)
            WORKERS = settings["workers"]
            """,
            "config/__init__.py": "",
            "config/load.py": """
            import json


            def load(profile):
                settings = json.load(open("config/base.json"))
                profiles = json.load(open("config/profiles.json"))
                while profile:
                    for key, value in profiles[profile].items():
                        if key != "extends":
                            settings[key] = value
                    profile = profiles[profile].get("extends")
                return settings
            """,
            "config/base.json": '{"workers": 4, "port": 80}\n',
            "config/profiles.json": """
            {
              "day": {"workers": 16},
              "night": {"extends": "quiet", "workers": 2, "port": 8080},
              "quiet": {"workers": 3}
            }
            """,
        },
        check="""
        import re
        assert re.search(r"\\b3\\b", answer) and "quiet" in answer, answer
        assert unchanged()
        """,
        solution="echo '3, from the profile quiet, which night extends and which is applied after it'",
    ),
    task(
        "medium-json",
        "medium",
        "json",
        """Make users.json out of people.json: an object with one entry for each active person, with the id as the key
        and as value an object with "name" (first and last name with a space between) and "mail" in lower case. Leave
        out people who are not active. Leave people.json as it is.""",
        files={
            "people.json": """
            [
              {"id": 7, "first": "Ada", "last": "Lovelace", "mail": "Ada@Example.org", "active": true},
              {"id": 9, "first": "Bob", "last": "Ross", "mail": "bob@example.org", "active": false},
              {"id": 12, "first": "Cy", "last": "Young", "mail": "CY@EXAMPLE.ORG", "active": true}
            ]
            """
        },
        check="""
        import json
        assert json.loads(read("users.json")) == {
            "7": {"name": "Ada Lovelace", "mail": "ada@example.org"},
            "12": {"name": "Cy Young", "mail": "cy@example.org"},
        }, read("users.json")
        assert git("diff", "evals-begin", "--", "people.json") == ""
        """,
        solution="""
        python3 -c '
        import json
        people = json.load(open("people.json"))
        people = [p for p in people if p["active"]]
        users = {p["id"]: {"name": p["first"] + " " + p["last"], "mail": p["mail"].lower()} for p in people}
        json.dump(users, open("users.json", "w"))'
        """,
    ),
    task(
        "medium-git",
        "medium",
        "git",
        """One of the last commits broke double in arith.py: double(3) must be 6. Find that commit with git and revert
        it with git revert, so that the other commits stay. Leave nothing uncommitted.""",
        files={"lib.py": "def half(x):\n    return x / 2\n"},
        setup="""
        git mv lib.py arith.py
        printf '\\n\\ndef double(x):\\n    return x * 2\\n' >> arith.py; git add -A; git commit -qm 'Add double'
        sed -i 's/x \\* 2/x ** 2/' arith.py; git commit -qam 'Simplify'
        echo '# Numbers' > README.md; git add -A; git commit -qm 'Add a README'
        """,
        check="""
        import importlib.util
        spec = importlib.util.spec_from_file_location("arith", "arith.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.double(3) == 6 and module.half(4) == 2
        log = git("log", "--format=%s").splitlines()
        assert any(line.startswith("Revert") for line in log) and {"Simplify", "Add a README"} <= set(log), log
        assert git("status", "--porcelain").strip() == "" and read("README.md") == "# Numbers\\n"
        """,
        solution="git revert --no-edit HEAD~1 >/dev/null",
    ),
    task(
        "medium-agents-md",
        "medium",
        "agents-md",
        "Add a function fahrenheit(celsius) to temperature.py.",
        files={
            "AGENTS.md": """
            # Rules of this project

            - Every public function has a docstring.
            - Every new function gets a test in tests/test_<module>.py, in a function that begins with test_.
            - Every change adds a line to CHANGES.md, at the end, that begins with "- " and names the function.
            """,
            "temperature.py": '''
            def kelvin(celsius):
                """Celsius as kelvin."""
                return celsius + 273.15
            ''',
            "tests/test_temperature.py": """
            from temperature import kelvin


            def test_kelvin():
                assert kelvin(0) == 273.15
            """,
            "CHANGES.md": "# Changes\n\n- kelvin: new\n",
        },
        check="""
        from temperature import fahrenheit, kelvin
        assert fahrenheit(100) == 212 and fahrenheit(0) == 32 and kelvin(0) == 273.15
        assert fahrenheit.__doc__, "no docstring"
        last = read("CHANGES.md").strip().splitlines()
        assert last[-1].startswith("- ") and "fahrenheit" in last[-1] and "- kelvin: new" in last, last
        assert "fahrenheit(" in read("tests/test_temperature.py") and tests_pass("tests.test_temperature")
        """,
        solution="""
        printf '\\n\\ndef fahrenheit(celsius):\\n    "In F."\\n    return celsius * 9 / 5 + 32\\n' >> temperature.py
        printf '\\n\\ndef test_f():\\n    import temperature\\n    assert temperature.fahrenheit(0) == 32\\n' \\
          >> tests/test_temperature.py
        echo '- fahrenheit: new' >> CHANGES.md
        """,
    ),
    task(
        "medium-recover",
        "medium",
        "recover",
        """Run python3 pipeline.py until it succeeds and prints the sum. It fails for several reasons, one after the
        other. Mend the causes in input/ and settings.json; do not change pipeline.py. Then tell me the sum.""",
        files={
            "pipeline.py": """
            import json
            import pathlib
            import sys

            settings = json.loads(pathlib.Path("settings.json").read_text())
            folder = pathlib.Path(settings["folder"])
            if not folder.is_dir():
                sys.exit(f"the folder {folder} is not there; the data is in input")
            total = 0
            for path in sorted(folder.glob("*.csv")):
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    fields = line.split(",")
                    if len(fields) != 2:
                        sys.exit(f"{path}:{number}: expected NAME,VALUE with a comma between, got {line!r}")
                    total += int(fields[1])
            pathlib.Path("total.txt").write_text(f"{total}\\n")
            print(total)
            """,
            "settings.json": '{"folder": "inptu",}\n',
            "input/a.csv": "x,10\ny;20\n",
            "input/b.csv": "z,12\n",
        },
        check="""
        assert git("diff", "evals-begin", "--", "pipeline.py") == "", "pipeline.py was changed"
        assert read("total.txt") == "42\\n" and output("python3 pipeline.py").strip() == "42" and "42" in answer, answer
        """,
        solution="""
        echo '{"folder": "input"}' > settings.json; sed -i 's/;/,/' input/a.csv; python3 pipeline.py
        """,
    ),
)
