"""One entrance for every input: ``decide(snapshot, input, now)``."""

from __future__ import annotations

from datetime import datetime

from dw_core.engine import activities, workflow_tasks
from dw_core.engine.activity_outcomes import decide_sweep
from dw_core.engine.archiving import decide_archive
from dw_core.engine.cancellation import decide_request
from dw_core.engine.claims import decide_claim_by_id
from dw_core.engine.closing import decide_time_out
from dw_core.engine.deliveries import decide_deliveries
from dw_core.engine.delivering import decide_acknowledge, decide_deliver
from dw_core.engine.history_limits import decide_overfull
from dw_core.engine.inputs import (
    AcknowledgeCancellation,
    AppendMessage,
    ArchiveWorkflow,
    CancelWorkflow,
    ChangeOutputStream,
    CheckActivity,
    CheckWorkflowTask,
    ClaimTask,
    CompleteActivity,
    CompleteWorkflowTask,
    DeliverCancellation,
    EndOverfullRun,
    FailActivity,
    FailWorkflowTask,
    FireTimer,
    HeartbeatActivity,
    HeartbeatWorkflowTask,
    Input,
    RecoverLeases,
    RedriveWorkflow,
    ReleaseClaim,
    RenewActivityLease,
    RepairWorkflow,
    RequestCancellation,
    SignalWorkflow,
    StartActivity,
    StartWorkflow,
    SweepTask,
    TakeDeliveries,
    TerminateWorkflow,
    TimeOutRun,
    UnblockRun,
    UpdateWorkflow,
)
from dw_core.engine.message_streams import decide_append
from dw_core.engine.output_streams import decide_output
from dw_core.engine.redriving import decide_redrive
from dw_core.engine.releases import decide_release
from dw_core.engine.renewals import decide_renew
from dw_core.engine.repairs import decide_repair, decide_unblock
from dw_core.engine.signals import decide_signal
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.standalone import decide_start_activity
from dw_core.engine.starts import decide_start
from dw_core.engine.terminating import decide_end
from dw_core.engine.timers import decide_fire
from dw_core.engine.transition import Outcome
from dw_core.engine.updates import decide_update
from dw_core.limits import Limits


def decide(snapshot: Snapshot, change: Input, now: datetime, limits: Limits) -> Outcome:
    """What ``change`` does to the run in ``snapshot`` at database time ``now``.

    Pure: the arguments are left as they are. Returns a transition to write, or a rejection that writes nothing.
    """
    match change:
        case StartActivity():
            return decide_start_activity(snapshot, change, now)
        case StartWorkflow():
            return decide_start(snapshot, change, now)
        case CompleteWorkflowTask():
            return workflow_tasks.decide_complete(snapshot, change, now, limits)
        case FailWorkflowTask():
            return workflow_tasks.decide_fail(snapshot, change, now)
        case CompleteActivity():
            return activities.decide_complete(snapshot, change, now)
        case FailActivity():
            return activities.decide_fail(snapshot, change, now)
        case HeartbeatActivity():
            return activities.decide_heartbeat(snapshot, change, now)
        case RenewActivityLease():
            return decide_renew(snapshot, change, now)
        case HeartbeatWorkflowTask():
            return workflow_tasks.decide_heartbeat(snapshot, change, now)
        case CheckWorkflowTask():
            return workflow_tasks.decide_check(snapshot, change, now)
        case CheckActivity():
            return activities.decide_status(snapshot, change, now)
        case FireTimer():
            return decide_fire(snapshot, change, now)
        case SweepTask():
            return decide_sweep(snapshot, change, now)
        case SignalWorkflow():
            return decide_signal(snapshot, change, now, limits)
        case AppendMessage():
            return decide_append(snapshot, change, now, limits)
        case ChangeOutputStream():
            return decide_output(snapshot, change, now)
        case CancelWorkflow() | TerminateWorkflow():
            return decide_end(snapshot, change, now)
        case RepairWorkflow():
            return decide_repair(snapshot, change, now)
        case ArchiveWorkflow():
            return decide_archive(snapshot, change, now)
        case RedriveWorkflow():
            return decide_redrive(snapshot, change, now)
        case UnblockRun():
            return decide_unblock(snapshot, change, now)
        case RequestCancellation():
            return decide_request(snapshot, change, now)
        case DeliverCancellation():
            return decide_deliver(snapshot, change, now)
        case AcknowledgeCancellation():
            return decide_acknowledge(snapshot, change, now)
        case UpdateWorkflow():
            return decide_update(snapshot, change, now, limits)
        case EndOverfullRun():
            return decide_overfull(snapshot, change, now, limits)
        case TimeOutRun():
            return decide_time_out(snapshot, change, now)
        case TakeDeliveries():
            return decide_deliveries(snapshot, change, now)
        case ClaimTask():
            return decide_claim_by_id(snapshot, change, now)
        case ReleaseClaim() | RecoverLeases():
            return decide_release(snapshot, change, now)
        case _:
            raise AssertionError(f"no decision for {type(change).__name__}")
