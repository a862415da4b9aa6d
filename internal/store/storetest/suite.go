package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

// Database creates an empty database for one test, and returns how to open it.
type Database func(t *testing.T) store.Options

// Run runs the suite on databases of one kind. Every test has its own database and a
// running store on it.
func Run(t *testing.T, database Database) {
	for name, test := range map[string]func(*testing.T, *store.Store){
		"CatalogComesBackAsItWasSaved":      catalogs,
		"CapabilityIDsAreIssuedOnce":        capabilities,
		"ServersAreRenamed":                 renamedServers,
		"MetaKeepsTheFirst":                 meta,
		"AnchorsKeepTheLatest":              anchors,
		"ExecutionsAreCounted":              executions,
		"ExecutionsAreFound":                executionsFound,
		"ExecutionsAreWrittenInParts":       executionsInParts,
		"RoundsAreUsedOnce":                 rounds,
		"ViewSeesOneState":                  viewSeesOneState,
		"ViewCannotWrite":                   viewCannotWrite,
		"FailingWriteFailsAlone":            failingWriteFailsAlone,
		"CommitThatFailsEnds":               commitFails,
		"WritesEndHoweverTheyFail":          writesEnd,
		"GenerationRisesWithItsChange":      generationRises,
		"LostChangeRaisesNothing":           lostChangeRaisesNothing,
		"WatchReportsWhatThereIsAndRises":   watchReports,
		"RegistryKeepsEverything":           registryKeepsEverything,
		"RegistryKeepsForeignNames":         registryForeignNames,
		"RegistryFilters":                   registryFilters,
		"RegistryWritesManyAtOnce":          registryMany,
		"RegistryUpdateLosesNothing":        registryUpdate,
		"RegistryIsSetByOperators":          registrySetters,
		"RegistryRefusesBadRecords":         registryRefuses,
		"RegistryIsPruned":                  registryPrune,
		"RegistryHasAHistory":               registryHistory,
		"FlagsAreSetAndCleared":             flags,
		"RestrictionsAreAddedAndRemoved":    restrictions,
		"ViewsAreRead":                      views,
		"DynamicServersHaveOneOwner":        dynamicOwners,
		"DynamicServersAreLimitedPerOwner":  dynamicLimit,
		"ModesAreRemembered":                modes,
		"ModeHistoryIsBounded":              modeHistory,
		"ApprovalIsUsedOnce":                approvalUsedOnce,
		"ApprovalShowsItsCall":              approvalText,
		"ApprovalIsDecidedOnce":             approvalDecidedOnce,
		"ApprovalIsForOneCall":              approvalForOneCall,
		"ApprovalExpires":                   approvalExpires,
		"ApprovalIsDeniedForAWhile":         approvalDenied,
		"ApprovalsPerCallerAreLimited":      approvalLimit,
		"ApprovalsAreListed":                approvalList,
		"CredentialsAreKeptPerPrincipal":    credentials,
		"CredentialsAreRenewedByOne":        credentialRenewal,
		"CredentialRaceHasOneWinner":        credentialRace,
		"DeclaredToolsAreKept":              declaredTools,
		"MemoriesAreTheirOwners":            memories,
		"MemoriesAreBounded":                memoriesBounded,
		"MemoriesExpire":                    memoriesExpire,
		"VectorsComeBackAsTheyWereSaved":    vectors,
		"DynamicToolsHaveOneOwner":          dynamicTools,
		"SchedulesAreTheirOwners":           schedules,
		"SchedulesAreBounded":               schedulesBounded,
		"SchedulesAreClaimedOnce":           schedulesClaimedOnce,
		"SchedulesNeverGoBack":              schedulesNeverGoBack,
		"SearchesAreTheirTenants":           learning,
		"LoginsAreTakenOnce":                logins,
		"FormsAreBoundedApart":              forms,
		"EveryChangeRaisesItsOwnGeneration": everyChangeRaises,
		"NamesThatCannotBeAreRefused":       impossibleNames,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, database(t)))
		})
	}
	t.Run("EverythingIsThereAfterARestart", func(t *testing.T) {
		t.Parallel()
		restart(t, database(t))
	})
	t.Run("ZeroHandlesRefuse", zeroHandles)
}

// open opens a store and runs it until the end of the test.
func open(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	before := s.Stats().Batches
	go func() { ended <- s.Run(ctx) }()
	defer waitFor(t, "the writer to run", func() bool { return s.Stats().Batches > before })
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// by is the actor of changes in tests.
var by = store.Change{Actor: "op", Reason: "because"}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recently requires that at is about now.
func recently(t *testing.T, what string, at time.Time) {
	t.Helper()
	if ago := time.Since(at); ago < -time.Minute || ago > time.Minute {
		t.Errorf("%s is %v ago", what, ago)
	}
}

func zeroHandles(t *testing.T) {
	ctx := t.Context()
	k := store.ApprovalKey{Principal: "p", CapabilityID: "c", ArgsHash: "h"}
	later := time.Now().Add(time.Hour)
	errs := map[string]error{}
	_, _, errs["Registry.List"] = new(store.Registry).List(ctx, store.RegistryFilter{})
	_, _, errs["Registry.Get"] = new(store.Registry).Get(ctx, "c")
	errs["Registry.Upsert"] = new(store.Registry).Upsert(ctx, nil)
	_, errs["Registry.SetEnabled"] = new(store.Registry).SetEnabled(ctx, "c", true, by)
	_, errs["Registry.History"] = new(store.Registry).History(ctx, "c")
	_, errs["Registry.Delete"] = new(store.Registry).Delete(ctx, "c")
	errs["Flags.Set"] = new(store.Flags).Set(ctx, "t", true, by, "c")
	_, errs["Flags.Clear"] = new(store.Flags).Clear(ctx, "t", "c")
	_, _, errs["Flags.List"] = new(store.Flags).List(ctx, "")
	errs["Restrictions.Add"] = new(store.Restrictions).Add(ctx, "p", by, "c")
	errs["Restrictions.Allow"] = new(store.Restrictions).Allow(ctx, "p", by, "c")
	_, errs["Restrictions.Remove"] = new(store.Restrictions).Remove(ctx, "p", "c")
	_, _, errs["Restrictions.List"] = new(store.Restrictions).List(ctx, "")
	_, errs["Dynamic.Add"] = new(store.Dynamic).Add(ctx, store.DynamicRecord{}, 1)
	_, errs["Dynamic.Promote"] = new(store.Dynamic).Promote(ctx, "s", by)
	_, errs["Dynamic.RemoveOwn"] = new(store.Dynamic).RemoveOwn(ctx, "s", store.Owner{})
	_, _, errs["Dynamic.Get"] = new(store.Dynamic).Get(ctx, "s")
	errs["DynamicTools.Put"] = new(store.DynamicTools).Put(ctx, &store.DynamicTool{}, 1)
	_, errs["DynamicTools.Remove"] = new(store.DynamicTools).Remove(ctx, "t")
	_, errs["DynamicTools.RemoveOwn"] = new(store.DynamicTools).RemoveOwn(ctx, "t", store.Owner{})
	_, _, errs["DynamicTools.List"] = new(store.DynamicTools).List(ctx)
	errs["Declared.Put"] = new(store.Declared).Put(ctx, nil)
	_, errs["Declared.Remove"] = new(store.Declared).Remove(ctx, "t")
	_, _, errs["Declared.List"] = new(store.Declared).List(ctx)
	_, _, errs["Dynamic.List"] = new(store.Dynamic).List(ctx)
	_, _, errs["Credentials.Find"] = new(store.Credentials).Find(ctx, "s", "")
	_, errs["Credentials.Put"] = new(store.Credentials).Put(ctx, store.CredentialRecord{})
	_, errs["Credentials.Lease"] = new(store.Credentials).Lease(ctx, store.CredentialKey{}, 1, "h", later)
	errs["Credentials.Release"] = new(store.Credentials).Release(ctx, store.CredentialKey{}, "h")
	_, _, errs["Credentials.Renew"] = new(store.Credentials).Renew(ctx, store.CredentialKey{}, 1, nil)
	_, errs["Credentials.Delete"] = new(store.Credentials).Delete(ctx, "s", "")
	_, errs["Credentials.List"] = new(store.Credentials).List(ctx)
	errs["Logins.Keep"] = new(store.Logins).Keep(ctx, "id", nil, later)
	_, errs["Logins.Spend"] = new(store.Logins).Spend(ctx, "who", "id", later)
	_, _, errs["Logins.Take"] = new(store.Logins).Take(ctx, "id")
	_, _, errs["Logins.Client"] = new(store.Logins).Client(ctx, "i", "r")
	errs["Logins.KeepClient"] = new(store.Logins).KeepClient(ctx, "i", "r", nil)
	_, errs["Memories.Save"] = new(store.Memories).Save(ctx, "p", store.MemoryRecord{})
	_, errs["Memories.List"] = new(store.Memories).List(ctx, "p", store.MemoryText)
	_, errs["Memories.Delete"] = new(store.Memories).Delete(ctx, "p", "id")
	_, errs["Vectors.Load"] = new(store.Vectors).Load(ctx, "s", nil)
	errs["Vectors.Save"] = new(store.Vectors).Save(ctx, "s", nil)
	_, errs["Schedules.Add"] = new(store.Schedules).Add(ctx, store.Schedule{})
	_, errs["Schedules.List"] = new(store.Schedules).List(ctx, "p")
	_, errs["Schedules.Cancel"] = new(store.Schedules).Cancel(ctx, "p", "id")
	_, _, errs["Schedules.Next"] = new(store.Schedules).Next(ctx)
	_, _, errs["Schedules.Claim"] = new(store.Schedules).Claim(ctx, "h", later, later)
	errs["Schedules.Renew"] = new(store.Schedules).Renew(ctx, "id", "h", later)
	_, errs["Schedules.Finish"] = new(store.Schedules).Finish(ctx, "id", "h", store.ScheduleMade, store.ScheduleEnd{})
	_, errs["Schedules.Lose"] = new(store.Schedules).Lose(ctx)
	errs["Modes.Set"] = new(store.Modes).Set(ctx, "m", by)
	_, _, errs["Modes.Current"] = new(store.Modes).Current(ctx)
	_, errs["Modes.History"] = new(store.Modes).History(ctx, 1)
	_, _, errs["Approvals.Ask"] = new(store.Approvals).Ask(ctx, k, store.ApprovalText{}, later)
	_, _, errs["Approvals.Decide"] = new(store.Approvals).Decide(ctx, "a", true, later, by)
	_, _, errs["Approvals.Use"] = new(store.Approvals).Use(ctx, k)
	_, errs["Approvals.Expire"] = new(store.Approvals).Expire(ctx)
	_, _, errs["Approvals.Get"] = new(store.Approvals).Get(ctx, "a")
	_, errs["Approvals.List"] = new(store.Approvals).List(ctx, "", 1)
	var s store.Store
	errs["Store.Watch"] = s.Watch(ctx, func(string, int64) {})
	_, errs["Store.Generations"] = s.Generations(ctx)
	for name, err := range errs {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, err)
		}
	}
}
