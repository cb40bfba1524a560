"""The campaign: the only room that joins designs, judges, ledger and statistics.

* ``planning``: from a study to the questions of each round;
* ``judges``: from the judges of a study to judges that answer;
* ``asking``: put questions to judges under the budget, and file every answer;
* ``deciding``: from tables of verdicts to the estimates of a look;
* ``answers``: verdicts from outside, in the words that the parser reads;
* ``campaign``: the loop that joins them, ``events`` for those who watch it, ``signals`` for those
  who stop it, and ``result``, what it comes to.
"""

from benchtrial.orchestrator.campaign.asking import Panelist
from benchtrial.orchestrator.campaign.campaign import Campaign
from benchtrial.orchestrator.campaign.deciding import Evidence, covariates, stopping_plan, weigh
from benchtrial.orchestrator.campaign.events import (
    AttemptFailed,
    Event,
    Listener,
    LookTaken,
    Replied,
    RoundStarted,
)
from benchtrial.orchestrator.campaign.judges import panel_of, recorded_panel
from benchtrial.orchestrator.campaign.result import Result, looks_of

__all__ = [
    "AttemptFailed",
    "Campaign",
    "Event",
    "Evidence",
    "Listener",
    "LookTaken",
    "Panelist",
    "Replied",
    "Result",
    "RoundStarted",
    "covariates",
    "looks_of",
    "panel_of",
    "recorded_panel",
    "stopping_plan",
    "weigh",
]
