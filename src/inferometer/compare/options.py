"""The options that say what is compared, and when that is a regression."""

from inferometer.base.options import Dialect, Option, as_given, whole

OPTIONS = (
    Option(
        ("-m",),
        "models",
        "Model of a variant, or MODEL@URL; give it several times. The first is the baseline.",
        as_given,
        "NAME",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("-u",),
        "urls",
        "Address of a server; several compare the same model on each.",
        as_given,
        "URL",
        "localhost:8000",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--fail-if",),
        "fail_if",
        "Conditions of a regression, such as 'p99 > +5%, throughput < -3%, snr < 40'.",
        as_given,
        "CONDITIONS",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--compare-outputs",),
        "outputs",
        "How many requests' outputs to compare; 0 is none.",
        whole(least=0),
        "COUNT",
        "20",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--force",),
        "force",
        "Compare saved results although load, payload or host differ.",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--markdown",),
        "markdown",
        "Write tables for a pull request here.",
        as_given,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--junit",),
        "junit",
        "Write test cases for CI here, as JUnit XML.",
        as_given,
        "FILE",
        dialect=Dialect.OURS,
    ),
)
