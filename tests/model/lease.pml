/* The lease protocol of protocol.md, under TSO.
   Every writing thread has one FIFO store buffer (a channel, emptied by DrainD/DrainC); seq_cst store = put + empty();
   system calls (send, fork, bell) and locked read-modify-writes of client-local state wait for the thread's own buffer.
   Daemon: one name, versions 1..NV, then deletion.  Freed blocks are overwritten at once (0 = somebody else's data)
   and the lowest free block is used for the next version, so a premature free is a visible write into memory in use.
   A leak is a blocked daemon at the end (invalid end state). 1 = as the protocol has it unless noted. */
#ifndef NC              /* clients */
#define NC 1
#endif
#ifndef NT              /* threads a client */
#define NT 2
#endif
#ifndef NK              /* cells a session (1 or 2) */
#define NK 2
#endif
#ifndef NV              /* versions published; then the name is deleted */
#define NV 2
#endif
#ifndef TRIES           /* gets a thread */
#define TRIES 2
#endif
#ifndef CF              /* fence in take */
#define CF 1
#endif
#ifndef DF              /* fence in retire */
#define DF 1
#endif
#ifndef RECHECK         /* look at G after announcing, hot path */
#define RECHECK 1
#endif
#ifndef NAIVE           /* wrong: local count without DROPPING, clear after a new take */
#define NAIVE 0
#endif
#ifndef CKILL           /* client 0 may be SIGKILLed at any step */
#define CKILL 0
#endif
#ifndef REAP            /* the death handle is looked at */
#define REAP 1
#endif
#ifndef SOCKCLOSE       /* a client may close its socket (no request outstanding) while it uses memory */
#define SOCKCLOSE 0
#endif
#ifndef CLOSEASK        /* wrong: ... also with a request outstanding */
#define CLOSEASK 0
#endif
#ifndef HUPDEATH        /* wrong: hang-up taken for death */
#define HUPDEATH 0
#endif
#ifndef LATE            /* a get may time out; its answer comes late and is not wanted */
#define LATE 0
#endif
#ifndef FORK            /* client 0 may fork */
#define FORK 0
#endif
#ifndef FORKLOCK        /* no 0->1 or 1->0 between marking and fork */
#define FORKLOCK 1
#endif
#ifndef ESCSTICKY       /* later stores of the same version keep ESCAPED */
#define ESCSTICKY 1
#endif
#ifndef ESCHONOUR       /* escaped memory is dropped, not recycled */
#define ESCHONOUR 1
#endif
#ifndef ESCPERSIST      /* ESCAPED is written beside the block in the directory before G=0 */
#define ESCPERSIST 1
#endif
#ifndef DEADLOOK        /* a dead session's cells are read for ESCAPED before they are released */
#define DEADLOOK 1
#endif
#ifndef DKILL           /* how many times the daemon may be SIGKILLed, at any step, recovery included */
#define DKILL 0
#endif
#ifndef SCAN            /* lost answers: at the socket's end the client returns grants it got no answer for */
#define SCAN 1
#endif
#ifndef G0RET           /* wrong: retire stores 0, not v|RETIRED */
#define G0RET 0
#endif
#ifndef FREEFIRST       /* wrong: the successor frees before it reads the pages */
#define FREEFIRST 0
#endif
#ifndef KEEPH           /* the successor maps the old hold pages (0: fresh zero pages) */
#define KEEPH 1
#endif
#ifndef WRITEHELD       /* wrong: a grant counts as held only once the client wrote v|HELD */
#define WRITEHELD 0
#endif
#ifndef EARLYREUSE      /* wrong: a cell with G=0 and x|FREE is granted again */
#define EARLYREUSE 0
#endif
#ifndef FORGETFIRST     /* the client forgets v's cell before it stores v|RETURNED */
#define FORGETFIRST 1
#endif
#ifndef ABA             /* wrong: the successor numbers its commits from 1 again */
#define ABA 0
#endif
#ifndef SWEEP           /* 0: no periodic sweep, the daemon looks again on a bell only */
#define SWEEP 1
#endif
#ifndef GIVEBACK        /* a client may give a grant back while its version is published */
#define GIVEBACK 0
#endif
#ifndef SAMEAGAIN       /* wrong: a cell may serve the same version again */
#define SAMEAGAIN 0
#endif
#ifndef DROPF           /* fence between v|FREE and the look at G in drop */
#define DROPF 0
#endif

#define NX (NC*NK)
#define NTH (NC*NT)
#define TF NTH                        /* store buffer of the forking thread */
#define NB (NV+FORK)
#define NONE 255
#define DROPPED 255
#define LIVE 1
#define RETIRED 2
#define HELD 1
#define FREE 2
#define RETURNED 3
#define ESC 4
#define W(n,t) ((n)*8+(t))
#define VER(w) ((w)>>3)
#define TAG(w) ((w)&3)
#define IDLE 0
#define TAKING 1
#define HLD 2
#define DROPPING 3

/* shared memory and persistent state (descriptor store) */
byte G[NX], H[NX];
byte mem[NB];                         /* content of each block: which version's bytes it has */
byte owner[NB];                       /* directory: block -> version (0 free, DROPPED) */
byte pub, last;                       /* directory: published version, last commit */
bool escd[NV+1];                      /* directory: some grant of the version escaped */
#if ABA
byte num[NV+1]; byte cnt;
#define NUM(v) num[v]
#else
#define NUM(v) (v)
#endif
/* the daemon's own */
byte gd[NX];                          /* what it last stored in G (store forwarding) */
bool hlost;
#if KEEPH
#define HR(x) H[x]
#else
#define HR(x) (hlost -> 0 : H[x])
#endif
/* client-local state */
byte lv[NX], lb[NX], lst[NX], ln[NX];
bool lesc[NX];
#if DKILL || CLOSEASK
byte lw[NX];                          /* last version an answer was taken for, per cell: the client's own record, not H */
#define KNOW(x,v) lw[x] = NUM(v)
#ifndef SCANREC                       /* wrong (0): the scan goes by what is mapped now */
#define SCANREC 1
#endif
#else
#define KNOW(x,v) skip
#endif
bool asking[NC]; byte skipn[NC]; bool timedout[NC];
bool flk;
/* world */
bool dead[NC], conn[NC], hup[NC], bell[NC], ep[NC];
bool dkill; byte nfin;
bool forked; byte fv, fb;

chan dbuf = [4] of { byte, byte };
chan cb[NTH+FORK] = [2] of { byte, byte };
chan req[NC] = [2] of { bit };
chan ans[NC] = [2] of { byte, byte, byte };

active proctype DrainD() { byte a, w;
end: do :: atomic { dbuf?a,w -> if :: a < NX -> G[a] = w :: else -> mem[a-NX] = w fi; a = 0; w = 0 } od }
proctype DrainC(byte t) { byte a, w;
end: do :: atomic { cb[t]?a,w -> H[a] = w; a = 0; w = 0 } od }

#if NT+NC > 3
#error too many threads
#endif
#if NTH == 2
#define CBE0 (empty(cb[0]) && (NC>1 || empty(cb[1])))
#define CBEALL (empty(cb[0]) && empty(cb[1]))
#else
#define CBE0 empty(cb[0])
#define CBEALL empty(cb[0])
#endif
#if FORK
#define CBEF empty(cb[TF])
#else
#define CBEF true
#endif
#if HUPDEATH
#define DEADTEST(c) (hup[c] || (dead[c] && CBE0 && CBEF))
#else
#define DEADTEST(c) (dead[c] && CBE0 && CBEF)     /* only client 0 is ever killed */
#endif

#if SWEEP
#define RING skip
#else
#define RING atomic { empty(cb[t]) -> bell[c] = 1 }
#endif

/* ------------------------------------------------------------------ client */
#define X0 (c*NK)
#define X1 (c*NK+NK-1)
#define CANJOIN(x) (lv[x] && lst[x] == HLD)
#define CANTAKE(x) (lv[x] && lst[x] == IDLE && !(FORK && FORKLOCK && flk))
#define NOUSE(x)   (lv[x] == 0 || (lst[x] == HLD && G[x] != W(NUM(lv[x]),LIVE)))
#define CANASK     (!asking[c] && NOUSE(X0) && NOUSE(X1))
#define E(x)       ((ESCSTICKY && lesc[x]) -> ESC : 0)
#define SETTLED(x) (lst[x] == IDLE || lst[x] == HLD)

proctype Thread(byte t) {
  byte c, x, v, b, n, w; bool fin;
  c = t / NT;
  { skip;
again:
    if
    :: n >= TRIES -> fin = 1;                       /* done; late answers are still read */
       if
       :: atomic { skipn[c] == 0 -> goto out }
       :: atomic { skipn[c] > 0 && !asking[c] -> asking[c] = 1 }; goto wait
       fi
    :: atomic { n < TRIES && CANJOIN(X0) -> x = X0; ln[x]++; goto use }
    :: atomic { n < TRIES && CANTAKE(X0) -> x = X0; lst[x] = TAKING; goto take }
#if NK > 1
    :: atomic { n < TRIES && CANJOIN(X1) -> x = X1; ln[x]++; goto use }
    :: atomic { n < TRIES && CANTAKE(X1) -> x = X1; lst[x] = TAKING; goto take }
#endif
    :: atomic { n < TRIES && CANASK -> asking[c] = 1 }
    fi;

ask:
    atomic { empty(cb[t]) ->
      if
      :: !conn[c] && skipn[c] > 0 -> skip              /* the old socket is read to its end first */
      :: else -> conn[c] = 1; req[c]!1                 /* (re)connect and send */
      fi }
wait:
    if
    :: atomic { fin && skipn[c] == 0 -> asking[c] = 0; goto out }
    :: atomic { !(fin && skipn[c] == 0) && !(FORK && FORKLOCK && flk) && nempty(ans[c]) -> ans[c]?x,v,b;
         if
         :: skipn[c] > 0 ->                             /* late */
            skipn[c]--;
            if
            :: x == NONE -> x = 0; goto wait
            :: else -> assert(lv[x] == 0 && lst[x] == IDLE); KNOW(x,v); b = 0
            fi
         :: else ->
            asking[c] = 0;
            if
            :: x == NONE -> x = 0; n++; goto again
            :: else ->
               assert(lv[x] == 0 && lst[x] == IDLE);    /* the cell serves nothing else */
               KNOW(x,v); lv[x] = v; lb[x] = b; lst[x] = TAKING; v = 0; b = 0; goto first
            fi
         fi }
       cb[t]!x,W(NUM(v),FREE);                          /* not wanted any more */
       RING;
       atomic { cb[t]!x,W(NUM(v),RETURNED); x = 0; v = 0 }
       goto wait
#if LATE
    :: atomic { !fin && !timedout[c] -> timedout[c] = 1; skipn[c]++; asking[c] = 0; n++; goto again }
#endif
#if CLOSEASK
    :: atomic { !fin && !hup[c] && conn[c] -> hup[c] = 1; conn[c] = 0; ep[c] = 1 - ep[c]; skipn[c] = 0;
         do :: req[c]?_ :: empty(req[c]) -> break od;
         do :: ans[c]?_,_,_ :: empty(ans[c]) -> break od; x = X0 }
       goto scan
#endif
#if DKILL
    :: atomic { !(fin && skipn[c] == 0) && empty(ans[c]) && !conn[c] -> skipn[c] = 0; x = X0 }   /* end of the socket */
       goto scan
#endif
    fi;
#if DKILL || CLOSEASK
scan:
#if SCAN
    do
    :: atomic { x > X1 -> x = 0; break }
    :: atomic { x <= X1 -> w = G[x];
         if :: lv[x] == 0 && w != 0 && (!SCANREC || lw[x] != VER(w)) -> w = VER(w); lw[x] = w :: else -> w = 0 fi }
       if
       :: atomic { w != 0 -> cb[t]!x,W(w,RETURNED); w = 0; x++ }
          RING
       :: atomic { w == 0 -> x++ }
       fi
    od;
#endif
    atomic { x = 0; if :: fin -> asking[c] = 0; goto again :: else -> goto ask fi }
#endif

first:                                                  /* first use: no fence, no look at G */
    cb[t]!x,W(NUM(lv[x]),HELD);
    assert(mem[lb[x]] == lv[x]);
    atomic { empty(cb[t]) -> lst[x] = HLD; ln[x] = 1; goto use }

take:                                                   /* hot path */
    cb[t]!x,W(NUM(lv[x]),HELD)+E(x);
#if CF
    empty(cb[t]);
#endif
    if
    :: atomic { (RECHECK && G[x] != W(NUM(lv[x]),LIVE)) -> skip }
       cb[t]!x,W(NUM(lv[x]),FREE)+E(x); RING; goto give
    :: else
    fi;
    atomic { empty(cb[t]) -> lst[x] = HLD; ln[x] = 1 }

use:
    assert(mem[lb[x]] == lv[x]);
#if SOCKCLOSE
    if :: atomic { conn[c] && !asking[c] && skipn[c] == 0 && !hup[c] -> conn[c] = 0; hup[c] = 1 } :: skip fi;
#endif
    atomic { (ln[x] > 1 || !(FORK && FORKLOCK && flk)) ->
      assert(mem[lb[x]] == lv[x]);
      ln[x]--;
      if
      :: ln[x] > 0 -> x = 0; n++; goto again
      :: else -> lst[x] = (NAIVE -> IDLE : DROPPING)
      fi }
    cb[t]!x,W(NUM(lv[x]),FREE)+E(x);
#if NAIVE
    atomic { x = 0; n++; goto again }
#endif
#if DROPF
    empty(cb[t]);
#endif
    if
    :: atomic { G[x] == W(NUM(lv[x]),LIVE) -> skip }
       atomic { empty(cb[t]) -> lst[x] = IDLE; x = 0; n++; goto again }
#if GIVEBACK
    :: atomic { G[x] == W(NUM(lv[x]),LIVE) -> n++; goto give }
#endif
    :: else -> RING; n++; goto give
    fi;

give:                                                   /* v is over: forget it, hand the cell back */
#if FORGETFIRST
    atomic { empty(cb[t]) -> w = W(NUM(lv[x]),RETURNED)+E(x); lv[x] = 0; lb[x] = 0; lesc[x] = 0; lst[x] = IDLE }
    atomic { cb[t]!x,w; w = 0; x = 0; goto again }
#else
    cb[t]!x,W(NUM(lv[x]),RETURNED)+E(x);
    atomic { empty(cb[t]) -> lv[x] = 0; lb[x] = 0; lesc[x] = 0; lst[x] = IDLE; x = 0; goto again }
#endif
  } unless { dead[c] };
out: atomic { x = 0; v = 0; b = 0; w = 0; n = 0; fin = 0; nfin++ }
}

#if FORK
/* one more thread of client 0: forks while others hold, take and drop */
proctype Forker() { byte x;
  { skip;
end: atomic { ((CANJOIN(0) || CANJOIN(NK-1)) && (!FORKLOCK || (SETTLED(0) && SETTLED(NK-1)))) -> flk = 1 }
    do
    :: x >= NK -> x = 0; break
    :: x < NK ->
       if
       :: atomic { CANJOIN(x) -> lesc[x] = 1; cb[TF]!x,W(NUM(lv[x]),HELD)+ESC }
       :: else
       fi; x++
    od;
    atomic { CBEF ->                                    /* fork(): the child may read whatever is held now */
      if
      :: CANJOIN(0) -> fv = lv[0]; fb = lb[0]; forked = 1
#if NK > 1
      :: CANJOIN(1) -> fv = lv[1]; fb = lb[1]; forked = 1
#endif
      :: else
      fi; flk = 0 }
  } unless { dead[0] };
  x = 0
}
proctype Child() {
end: forked -> assert(mem[fb] == fv) }
#endif

/* ------------------------------------------------------------------ daemon */
#if WRITEHELD
#define RELEASED(h,n) !(VER(h) == n && TAG(h) == HELD)
#else
#define RELEASED(h,n) (VER(h) == n && (TAG(h) == FREE || TAG(h) == RETURNED))
#endif
#define NOTE if :: (HR(x) & ESC) && VER(HR(x)) == VER(gd[x]) -> escd[VER(gd[x])] = 1 :: else fi
#define OPEN(x) (gd[x] == 0 && (HR(x) == 0 || (TAG(HR(x)) == RETURNED && (!GIVEBACK || SAMEAGAIN || VER(HR(x)) != NUM(pub))) || \
                 (EARLYREUSE && TAG(HR(x)) == FREE)))
#define GIVEN(x) (GIVEBACK && TAG(gd[x]) == LIVE && VER(HR(x)) == VER(gd[x]) && TAG(HR(x)) == RETURNED)
#define MUST(x) (TAG(gd[x]) == LIVE && (old -> VER(gd[x]) == NUM(old) : VER(gd[x]) != NUM(pub)))
#define GDIS(x,n) (VER(gd[x]) == n)
#if NX == 1
#define NOGD(n) !GDIS(0,n)
#define GD0 (gd[0] == 0)
#define HQUIET(x) (TAG(H[x]) != HELD || dead[0])
#define HQ HQUIET(0)
#else
#define NOGD(n) !(GDIS(0,n) || GDIS(1,n))
#define GD0 (gd[0] == 0 && gd[1] == 0)
#define HQUIET(x) (TAG(H[x]) != HELD || (dead[(x)/NK]))
#define HQ (HQUIET(0) && HQUIET(1))
#endif
#define USEDB(b) (owner[b] != 0 && owner[b] != DROPPED)
#define FREEABLE(b) (USEDB(b) && owner[b] != pub && NOGD(NUM(owner[b])))
#define FREEIT(b) if :: ESCHONOUR && escd[NUM(owner[b])] -> owner[b] = DROPPED :: else -> owner[b] = 0; dbuf!NX+b,0 fi
#if NB == 2
#define ANYFREE (owner[0] == 0 || owner[1] == 0)
#define ALLFREE !(USEDB(0) || USEDB(1))
#endif
#if NB == 3
#define ANYFREE (owner[0] == 0 || owner[1] == 0 || owner[2] == 0)
#define ALLFREE !(USEDB(0) || USEDB(1) || USEDB(2))
#endif
#if NC > 1
#define REQE (empty(req[0]) && empty(req[1]))
#else
#define REQE empty(req[0])
#endif

#define LOOK(X) :: atomic { ((TAG(gd[X]) == RETIRED && RELEASED(HR(X),VER(gd[X]))) || GIVEN(X)) && (SWEEP || bell[(X)/NK]) -> x = X; NOTE } goto release
#define DEATH(X) :: atomic { gd[X] != 0 && DEADTEST((X)/NK) -> x = X; if :: DEADLOOK -> NOTE :: else fi } goto release
#define GRANT(C) :: atomic { nempty(req[C]) -> req[C]?_; e0 = ep[C]; \
   if \
   :: pub == 0 || !(OPEN(C*NK) || OPEN(C*NK+NK-1)) -> ans[C]!NONE,0,0; goto loop \
   :: else -> x = (OPEN(C*NK) -> C*NK : C*NK+NK-1); gd[x] = W(NUM(pub),LIVE); dbuf!x,gd[x] \
   fi } \
   goto send
#define RECYCLE(B) :: atomic { FREEABLE(B) -> FREEIT(B) }

proctype Daemon() {
  byte x, b, old; bool e0;
  do
  :: {
#if FREEFIRST
    if
    :: atomic { hlost -> b = 0;
         do :: b < NB -> if :: USEDB(b) && owner[b] != pub -> owner[b] = 0; dbuf!NX+b,0 :: else fi; b++
            :: else -> b = 0; break od }
    :: atomic { !hlost -> skip }
    fi;
#endif
    atomic { x = 0; do :: x < NX -> gd[x] = G[x]; x++ :: else -> x = 0; break od }
    goto retire;

loop:
    do
    GRANT(0)
#if NC > 1
    GRANT(1)
#endif
    :: atomic { last < NV && ANYFREE -> b = 0; do :: owner[b] != 0 -> b++ :: else -> break od;
         owner[b] = last+1; dbuf!NX+b,last+1; b = 0 }
       atomic { old = pub; last++; pub = last;          /* commit */
#if ABA
         cnt++; num[last] = cnt;
#endif
         x = 0; goto retire }
    :: atomic { last == NV && pub != 0 -> old = pub; pub = 0; x = 0; goto retire }
#if SWEEP == 0
    :: atomic { bell[0] && !(TAG(gd[0]) == RETIRED && RELEASED(HR(0),VER(gd[0]))) && !(TAG(gd[NK-1]) == RETIRED && RELEASED(HR(NK-1),VER(gd[NK-1]))) -> bell[0] = 0 }
#endif
    LOOK(0)
#if NX > 1
    LOOK(1)
#endif
#if REAP
    DEATH(0)
#if NX > 1
    DEATH(1)
#endif
#endif
    RECYCLE(0)
    RECYCLE(1)
#if NB > 2
    RECYCLE(2)
#endif
    :: atomic { nfin == NTH && last == NV && pub == 0 && GD0 && ALLFREE && REQE && CBEALL && CBEF && empty(dbuf) && !bell[0] ->
         assert(HQ); goto fin }
    od;

send:
    atomic { empty(dbuf) -> b = 0; do :: owner[b] != pub -> b++ :: else -> break od;
      if :: e0 == ep[x/NK] -> ans[x/NK]!x,pub,b :: else fi; x = 0; b = 0; e0 = 0; goto loop }

release:
    atomic { gd[x] = 0; dbuf!x,0; x = 0; goto loop }

retire:                                                 /* x = 0; old = the version, or 0: whatever is not published */
    do
    :: atomic { x >= NX -> x = 0; old = 0; goto loop }
    :: atomic { x < NX && !MUST(x) && !(TAG(gd[x]) == RETIRED && old == 0) -> x++ }
    :: atomic { x < NX && (MUST(x) || (TAG(gd[x]) == RETIRED && old == 0)) ->
         if :: MUST(x) -> gd[x] = W(VER(gd[x]),RETIRED); dbuf!x,(G0RET -> 0 : gd[x]) :: else fi }
#if DF
       empty(dbuf);
#endif
       if
       :: atomic { RELEASED(HR(x),VER(gd[x])) -> NOTE }
          atomic { gd[x] = 0; dbuf!x,0; x++ }
       :: else -> x++
       fi
    od
    } unless { dkill };
    empty(dbuf);                                        /* SIGKILL: the buffer drains, then the sockets end */
    atomic { dkill = 0; hlost = 1; x = 0; b = 0; old = 0; e0 = 0;
#if ABA
      cnt = 0;
#endif
#if ESCPERSIST == 0
      do :: b <= NV -> escd[b] = 0; b++ :: else -> b = 0; break od;
#endif
      do
      :: x < NC -> conn[x] = 0; do :: req[x]?_ :: empty(req[x]) -> break od; x++
      :: else -> x = 0; break
      od }
  od;
fin: skip
}

#if DKILL
proctype KillD() { byte r;
  do :: atomic { r < DKILL && !dkill -> dkill = 1; r++ } :: break od }
#endif
#if CKILL
proctype KillC() { if :: dead[0] = 1 :: skip fi }
#endif

init { atomic {
  byte i;
  pub = 1; last = 1; owner[0] = 1; mem[0] = 1;
#if ABA
  num[1] = 1; cnt = 1;
#endif
  i = 0; do :: i < NC -> conn[i] = 1; i++ :: else -> break od;
  i = 0; do :: i < NTH+FORK -> run DrainC(i); i++ :: else -> break od;
  run Daemon();
  i = 0; do :: i < NTH -> run Thread(i); i++ :: else -> break od;
#if FORK
  run Forker(); run Child();
#endif
#if DKILL
  run KillD();
#endif
#if CKILL
  run KillC();
#endif
  i = 0 } }
