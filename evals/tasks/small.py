"""Ten small tasks: a few files, a few steps, one thing to watch out for."""

from evals.task import Task, task

SMALL: tuple[Task, ...] = (
    task(
        "small-create",
        "small",
        "create",
        """Make stack.py with a class Stack that has the methods push(item), pop(), peek() and is_empty(). pop() and
        peek() on an empty stack raise IndexError.""",
        files={"README.md": "# Containers\n"},
        check="""
        from stack import Stack
        stack = Stack()
        assert stack.is_empty()
        stack.push(1); stack.push(2)
        assert stack.peek() == 2 and stack.pop() == 2 and stack.pop() == 1 and stack.is_empty()
        for method in (stack.pop, stack.peek):
            try:
                method()
            except IndexError:
                continue
            raise AssertionError("no IndexError")
        """,
        solution="""
        cat > stack.py <<'END'
        class Stack:
            def __init__(self):
                self.items = []

            def push(self, item):
                self.items.append(item)

            def pop(self):
                return self.items.pop()

            def peek(self):
                return self.items[-1]

            def is_empty(self):
                return not self.items
        END
        """,
    ),
    task(
        "small-fix",
        "small",
        "fix",
        "The tests in test_median.py fail. Find out why and fix median.py. Do not change the tests.",
        files={
            "median.py": '''
            def median(values):
                """The middle of the sorted values; of an even number of values the mean of the two in the middle."""
                ordered = sorted(values)
                middle = len(ordered) // 2
                return ordered[middle]
            ''',
            "test_median.py": """
            from median import median


            def test_odd():
                assert median([3, 1, 2]) == 2


            def test_even():
                assert median([4, 1, 3, 2]) == 2.5
            """,
        },
        check="""
        assert git("diff", "evals-begin", "--", "test_median.py") == "", "the tests were changed"
        from median import median
        assert median([4, 1, 3, 2]) == 2.5 and median([5]) == 5 and median([1, 2]) == 1.5 and median([3, 1, 2]) == 2
        """,
        solution="""
        cat > median.py <<'END'
        def median(values):
            ordered = sorted(values)
            middle = len(ordered) // 2
            if len(ordered) % 2:
                return ordered[middle]
            return (ordered[middle - 1] + ordered[middle]) / 2
        END
        """,
    ),
    task(
        "small-rename",
        "small",
        "rename",
        "The class Acount in bank.py is misspelled. Rename it to Account everywhere in this project.",
        files={
            "bank.py": """
            class Acount:
                def __init__(self, owner):
                    self.owner = owner
                    self.balance = 0

                def deposit(self, amount):
                    self.balance += amount


            def open_acount(owner):
                return Acount(owner)
            """,
            "main.py": """
            from bank import Acount, open_acount

            first = Acount("Ada")
            second = open_acount("Bob")
            first.deposit(5)
            print(type(second).__name__, first.balance)
            """,
        },
        check="""
        assert output("python3 main.py").split() == ["Account", "5"], output("python3 main.py 2>&1")
        assert "Acount" not in read("bank.py") and "Acount" not in read("main.py")
        """,
        solution="sed -i 's/Acount/Account/g' bank.py main.py",
    ),
    task(
        "small-extract",
        "small",
        "extract",
        """invoice.py and receipt.py both have the same function money. Move it into a new file format.py and import it
        from there in both.""",
        files={
            "invoice.py": """
            def money(cents):
                return f"{cents // 100}.{cents % 100:02d} EUR"


            def invoice(cents):
                return "Please pay " + money(cents)
            """,
            "receipt.py": """
            def money(cents):
                return f"{cents // 100}.{cents % 100:02d} EUR"


            def receipt(cents):
                return "You paid " + money(cents)
            """,
        },
        check="""
        from invoice import invoice
        from receipt import receipt
        import format
        assert format.money(1205) == "12.05 EUR"
        assert invoice(1205) == "Please pay 12.05 EUR" and receipt(5) == "You paid 0.05 EUR"
        assert "def money" not in read("invoice.py") + read("receipt.py")
        """,
        solution="""
        head -2 invoice.py > format.py
        for name in invoice receipt; do
          { echo 'from format import money'; tail -n +3 $name.py; } > new && mv new $name.py
        done
        """,
    ),
    task(
        "small-test",
        "small",
        "test",
        """Write test_leap.py that tests is_leap in leap.py with plain assert statements in functions that begin with
        test_. Test ordinary years, leap years, and years that end in 00.""",
        files={
            "leap.py": '''
            def is_leap(year):
                """Every fourth year, but of the years that end in 00 only every fourth."""
                return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            '''
        },
        check="""
        assert tests_pass("test_leap"), "the tests do not pass"
        for wrong in ("year % 4 == 0", "year % 4 == 0 and year % 100 != 0", "year % 400 == 0", "True", "False"):
            write("leap.py", f"def is_leap(year):\\n    return {wrong}\\n")
            assert not tests_pass("test_leap"), f"the tests do not notice: {wrong}"
        """,
        solution="""
        cat > test_leap.py <<'END'
        from leap import is_leap


        def test_years():
            assert is_leap(2024) and is_leap(2000)
            assert not is_leap(2023) and not is_leap(1900)
        END
        """,
    ),
    task(
        "small-find",
        "small",
        "find",
        "Which function of this project sends mail without a subject? Name the function and its file. Change nothing.",
        files={
            "app/mail.py": """
            def send(to, body, subject=""):
                print("to", to, "subject", subject, body)
            """,
            "app/users.py": """
            from app.mail import send


            def welcome(user):
                send(user, "Welcome!", subject="Hello")


            def goodbye(user):
                send(user, "Sorry to see you go", subject="Goodbye")
            """,
            "app/orders.py": """
            from app.mail import send


            def confirm(user, order):
                send(user, f"Order {order} is on its way", subject="Your order")


            def remind_late_payer(user, order):
                send(user, f"Please pay {order}")
            """,
        },
        check="""
        assert "remind_late_payer" in answer and "orders.py" in answer, answer
        assert "goodbye" not in answer and unchanged()
        """,
        solution="echo 'remind_late_payer in app/orders.py'",
    ),
    task(
        "small-explain",
        "small",
        "explain",
        """Running python3 report.py ends with an error. Which file of data causes it, and in which line of that file?
        Tell me the file and the number of the line. Change nothing.""",
        files={
            "report.py": """
            import glob

            total = 0
            for path in sorted(glob.glob("data/*.txt")):
                for line in open(path):
                    total += int(line)
            print(total)
            """,
            "data/april.txt": "10\n20\n30\n",
            "data/march.txt": "5\n7\nseven\n9\n",
            "data/may.txt": "1\n2\n",
        },
        check="""
        assert "march" in answer and "3" in answer and "april.txt" not in answer, answer
        assert unchanged()
        """,
        solution="echo 'data/march.txt, line 3: it says seven'",
    ),
    task(
        "small-json",
        "small",
        "json",
        """In package.json raise the version to 1.1.0, add the dependency "uuid" with version "9.0.1", and remove the
        script "prepublish". Keep everything else.""",
        files={
            "package.json": """
            {
              "name": "shop",
              "version": "1.0.3",
              "scripts": {
                "test": "node test.js",
                "prepublish": "node build.js",
                "start": "node index.js"
              },
              "dependencies": {
                "express": "4.18.2"
              }
            }
            """
        },
        check="""
        import json
        assert json.loads(read("package.json")) == {
            "name": "shop",
            "version": "1.1.0",
            "scripts": {"test": "node test.js", "start": "node index.js"},
            "dependencies": {"express": "4.18.2", "uuid": "9.0.1"},
        }, read("package.json")
        """,
        solution="""
        sed -i 's/1.0.3/1.1.0/; /prepublish/d; s/"4.18.2"/"4.18.2",\\n    "uuid": "9.0.1"/' package.json
        """,
    ),
    task(
        "small-git",
        "small",
        "git",
        """Make a new git branch called notes, add a file NOTES.md with the one line "Work in progress" on it, commit
        it, and then switch back to the branch main.""",
        files={"README.md": "# Project\n"},
        check="""
        assert git("branch", "--show-current").strip() == "main", git("branch")
        assert git("show", "notes:NOTES.md").strip() == "Work in progress"
        assert git("log", "--format=%h", "main..notes").split() and "NOTES.md" not in git("ls-files")
        assert git("status", "--porcelain").strip() == ""
        """,
        solution="""
        git checkout -qb notes; echo 'Work in progress' > NOTES.md; git add NOTES.md; git commit -qm Notes
        git checkout -q main
        """,
    ),
    task(
        "small-recover",
        "small",
        "recover",
        """Run sh build.sh so that it succeeds and makes out/result.txt. It may fail at first; do what it needs, but do
        not change build.sh.""",
        files={
            "build.sh": """
            set -e
            if [ ! -f settings.ini ]; then
              echo "error: settings.ini is missing; copy settings.ini.example" >&2
              exit 1
            fi
            if [ ! -d out ]; then
              echo "error: the directory out does not exist" >&2
              exit 1
            fi
            cp settings.ini out/result.txt
            """,
            "settings.ini.example": "mode = fast\n",
        },
        check="""
        assert read("out/result.txt") == "mode = fast\\n"
        assert git("diff", "evals-begin", "--", "build.sh") == "", "build.sh was changed"
        """,
        solution="cp settings.ini.example settings.ini; mkdir out; sh build.sh",
    ),
)
