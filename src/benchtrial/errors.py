"""Every error that Benchtrial raises on purpose.

::

    BenchtrialError
    ├── InputError (ValueError)     what the user wrote is wrong; nothing was asked or paid for
    │   ├── StudyError              the study file, or a file that it names
    │   ├── DesignError             the arguments of a design
    │   ├── DataError               a table of verdicts
    │   └── StoppingError           the arguments of a stopping rule
    ├── FitError                    the data cannot carry the model
    │   ├── NotIdentified           a parameter or contrast that these data say nothing about
    │   └── NotConverged            the optimiser ran out of iterations
    ├── JudgeError                  one attempt to ask a judge
    │   ├── RateLimited             asked too fast: wait, then ask again
    │   ├── TransientError          a passing fault: ask again
    │   └── TerminalError           asking again cannot help
    │       ├── RequestRefused      this request only (too long for the judge)
    │       └── JudgeUnavailable    every request to this judge (key, credit, parameter, model)
    ├── LedgerError                 the durable record of a campaign
    │   ├── LedgerLocked            another process is running this campaign
    │   ├── LedgerDamaged           the file is not a sound ledger
    │   ├── LedgerTooNew            written by a later version
    │   └── StudyChanged            the study is not the one that this ledger holds
    ├── NotRecorded                 a recorded judge was asked something that was never recorded
    └── Interrupted                 stopped by the user or by a signal; everything paid for is kept

Each message says what was wrong, where, and how to mend it. ``exit_code`` is what the command line
returns for an error of that class; ``docs/reference/exit-codes.md`` lists them.
"""


class BenchtrialError(Exception):
    """Base of every error that Benchtrial raises on purpose."""

    exit_code: int = 1


class InputError(BenchtrialError, ValueError):
    """What the user wrote is wrong; nothing was asked or paid for."""

    exit_code = 2


class StudyError(InputError):
    """The study file, or a file that it names, cannot be used."""


class DesignError(InputError):
    """The arguments of a design cannot give a schedule."""


class DataError(InputError):
    """A table of verdicts cannot be used."""


class StoppingError(InputError):
    """The arguments of a stopping rule are impossible."""


class FitError(BenchtrialError):
    """The data cannot carry the model."""

    exit_code = 3


class NotIdentified(FitError):
    """A parameter or contrast that these data say nothing about."""


class NotConverged(FitError):
    """The optimiser ran out of iterations."""


class JudgeError(BenchtrialError):
    """One attempt to ask a judge failed.

    Parameters
    ----------
    message
        What was wrong and how to mend it, without any secret.
    status
        The HTTP status, if the judge answered with one.
    request_id
        The provider's own name for the request, for its support.
    may_be_billed
        Whether the provider may have done (and charged for) the work although no reply arrived:
        true for a connection lost or timed out after the request was sent, false for a refusal.
        The budget keeps the reservation of such an attempt.
    sent
        Whether anything left for the judge. A connection that was never made is no request.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        may_be_billed: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.may_be_billed = may_be_billed
        self.sent = sent


class RateLimited(JudgeError):
    """Asked too fast: wait (``retry_after`` seconds, if the judge named a wait), then ask again."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id)
        self.retry_after = retry_after


class TransientError(JudgeError):
    """A passing fault of the network or the server: ask again.

    ``retry_after`` is the wait in seconds that the server named, if it named one.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        request_id: str | None = None,
        may_be_billed: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(
            message, status=status, request_id=request_id, may_be_billed=may_be_billed, sent=sent
        )
        self.retry_after = retry_after


class TerminalError(JudgeError):
    """Asking again cannot help."""


class RequestRefused(TerminalError):
    """The request can never be answered (``reason`` is a verdict's reason); others can."""

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        status: int | None = None,
        request_id: str | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, sent=sent)
        self.reason = reason


class JudgeUnavailable(TerminalError):
    """No request to this judge can be answered until the user mends something."""


class LedgerError(BenchtrialError):
    """The durable record of a campaign cannot be used."""

    exit_code = 6


class LedgerLocked(LedgerError):
    """Another process is running this campaign."""


class LedgerDamaged(LedgerError):
    """The file is not a sound ledger."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a later version of Benchtrial."""


class StudyChanged(LedgerError):
    """The study is not the one that this ledger holds."""


class NotRecorded(BenchtrialError):
    """A recorded judge was asked something that was never recorded."""

    exit_code = 4


class Interrupted(BenchtrialError):
    """The run was stopped by the user or by a signal; everything paid for is kept."""

    exit_code = 130
