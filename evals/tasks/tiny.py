"""Ten tiny tasks: one file or two, one step or two. A model of a billion parameters can do most of them."""

from evals.task import Task, task

TINY: tuple[Task, ...] = (
    task(
        "tiny-create",
        "tiny",
        "create",
        "Make a file greet.py with a function greet(name) that returns the text 'Hello, NAME!' with the name in place.",
        files={"README.md": "# Greetings\n"},
        check="""
        from greet import greet
        assert greet("Ada") == "Hello, Ada!", greet("Ada")
        """,
        solution="""printf 'def greet(name):\\n    return f"Hello, {name}!"\\n' > greet.py""",
    ),
    task(
        "tiny-fix",
        "tiny",
        "fix",
        "The function add in calc.py gives wrong results. Fix it.",
        files={
            "calc.py": """
            def add(a, b):
                return a - b


            def multiply(a, b):
                return a * b
            """
        },
        check="""
        from calc import add, multiply
        assert add(2, 3) == 5 and multiply(2, 3) == 6
        """,
        solution="sed -i 's/a - b/a + b/' calc.py",
    ),
    task(
        "tiny-rename",
        "tiny",
        "rename",
        "In shapes.py rename the function area to circle_area, also where it is called.",
        files={
            "shapes.py": """
            PI = 3.14159


            def area(radius):
                return PI * radius * radius


            def volume(radius, height):
                return area(radius) * height
            """
        },
        check="""
        import shapes
        assert not hasattr(shapes, "area") and round(shapes.circle_area(1), 3) == 3.142
        assert round(shapes.volume(1, 2), 3) == 6.283
        """,
        solution="sed -i -E 's/\\barea\\(/circle_area(/' shapes.py",
    ),
    task(
        "tiny-extract",
        "tiny",
        "extract",
        """In bill.py the number 0.19 is written twice. Put it into a constant TAX at the top of the file and use TAX in
        both functions.""",
        files={
            "bill.py": """
            def tax(price):
                return price * 0.19


            def gross(price):
                return price + price * 0.19
            """
        },
        check="""
        import bill
        assert bill.TAX == 0.19 and read("bill.py").count("0.19") == 1
        assert round(bill.tax(100), 6) == 19 and round(bill.gross(100), 6) == 119
        """,
        solution="sed -i 's/0.19/TAX/; 1i TAX = 0.19\\n\\n' bill.py",
    ),
    task(
        "tiny-test",
        "tiny",
        "test",
        "Write a test file test_words.py with plain assert statements that tests count_words in words.py.",
        files={
            "words.py": '''
            def count_words(text):
                """How many words the text has."""
                return len(text.split())
            '''
        },
        check="""
        assert tests_pass("test_words"), "the test does not pass"
        write("words.py", "def count_words(text):\\n    return 7\\n")
        assert not tests_pass("test_words"), "the test does not notice a wrong function"
        """,
        solution="""
        printf 'from words import *\\n\\ndef test_it():\\n    assert count_words("a b") == 2\\n' > test_words.py
        """,
    ),
    task(
        "tiny-find",
        "tiny",
        "find",
        "In which file is the port number of the server set, and what is it? Change nothing.",
        files={
            "main.py": "from settings import PORT\n\nprint('serving at', PORT)\n",
            "settings.py": "HOST = 'localhost'\nPORT = 8391\nDEBUG = False\n",
            "notes.md": "The server is small.\n",
        },
        check="""
        assert "8391" in answer and "settings.py" in answer, answer
        assert unchanged()
        """,
        solution="echo 'settings.py sets it to 8391'",
    ),
    task(
        "tiny-explain",
        "tiny",
        "explain",
        "What does mystery(10) in puzzle.py return? Run it if you are not sure, and tell me the number.",
        files={
            "puzzle.py": """
            def mystery(n):
                a, b = 0, 1
                for _ in range(n):
                    a, b = b, a + b
                return a
            """
        },
        check="""
        assert "55" in answer, answer
        """,
        solution="echo 'It returns 55.'",
    ),
    task(
        "tiny-json",
        "tiny",
        "json",
        'In config.json set "debug" to true and "retries" to 5. Leave the rest as it is.',
        files={
            "config.json": """
            {
              "name": "shop",
              "debug": false,
              "retries": 3,
              "hosts": ["a.example", "b.example"]
            }
            """
        },
        check="""
        import json
        assert json.loads(read("config.json")) == {
            "name": "shop", "debug": True, "retries": 5, "hosts": ["a.example", "b.example"]
        }
        """,
        solution="sed -i 's/false/true/; s/: 3/: 5/' config.json",
    ),
    task(
        "tiny-git",
        "tiny",
        "git",
        "Commit the change that is in this working directory with git, with the message 'Raise the limit'.",
        files={"limits.py": "LIMIT = 10\n"},
        setup="echo 'LIMIT = 20' > limits.py",
        check="""
        assert git("log", "-1", "--format=%s").strip() == "Raise the limit", git("log", "-1", "--format=%s")
        assert git("status", "--porcelain").strip() == "" and read("limits.py") == "LIMIT = 20\\n"
        """,
        solution="git commit -qam 'Raise the limit'",
    ),
    task(
        "tiny-agents-md",
        "tiny",
        "agents-md",
        "Make a file area.py with a function square(x) that returns x times x.",
        files={
            "AGENTS.md": "# Rules of this project\n\nThe first line of every Python file must be: # (c) Example Ltd\n"
        },
        check="""
        from area import square
        assert square(3) == 9
        assert read("area.py").splitlines()[0].strip() == "# (c) Example Ltd", read("area.py").splitlines()[0]
        """,
        solution="printf '# (c) Example Ltd\\n\\n\\ndef square(x):\\n    return x * x\\n' > area.py",
    ),
)
