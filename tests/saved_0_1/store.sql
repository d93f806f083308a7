BEGIN TRANSACTION;
CREATE TABLE whyrank_answer (
	participant INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	choice TEXT NOT NULL, 
	side TEXT NOT NULL, 
	at TEXT NOT NULL, 
	PRIMARY KEY (participant, number), 
	FOREIGN KEY(participant) REFERENCES whyrank_participant (id) ON DELETE CASCADE
);
INSERT INTO "whyrank_answer" VALUES(1,1,'a','left','2026-01-02T03:04:05Z');
INSERT INTO "whyrank_answer" VALUES(1,2,'tie','tie','2026-01-02T03:04:05Z');
CREATE TABLE whyrank_feedback (
	number INTEGER NOT NULL, 
	"key" TEXT, 
	at TEXT NOT NULL, 
	event TEXT NOT NULL, 
	user TEXT NOT NULL, 
	item TEXT NOT NULL, 
	explanation TEXT, 
	model TEXT, 
	rank INTEGER, 
	PRIMARY KEY (number), 
	UNIQUE ("key")
);
INSERT INTO "whyrank_feedback" VALUES(1,'k1','2026-01-02T03:04:05Z','clicked','ann','inn','quiet','bper',2);
INSERT INTO "whyrank_feedback" VALUES(2,NULL,'2026-01-02T03:04:05Z','shown','ann','inn','quiet','bper',1);
CREATE TABLE whyrank_participant (
	id INTEGER NOT NULL, 
	study TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	token TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (study, number), 
	FOREIGN KEY(study) REFERENCES whyrank_study (id) ON DELETE CASCADE, 
	UNIQUE (token)
);
INSERT INTO "whyrank_participant" VALUES(1,'s1',1,'t1',9);
CREATE TABLE whyrank_study (
	id TEXT NOT NULL, 
	title TEXT NOT NULL, 
	a TEXT NOT NULL, 
	b TEXT NOT NULL, 
	n INTEGER NOT NULL, 
	agreement INTEGER NOT NULL, 
	ties BOOLEAN NOT NULL, 
	seed BIGINT NOT NULL, 
	question TEXT NOT NULL, 
	created TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "whyrank_study" VALUES('s1','Which reasons?','bper','pop',3,1,1,1,'Which list is better?','2026-01-02T03:04:05Z');
CREATE TABLE whyrank_study_case (
	study TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	user TEXT NOT NULL, 
	item TEXT NOT NULL, 
	title TEXT, 
	truth JSON NOT NULL, 
	a JSON NOT NULL, 
	b JSON NOT NULL, 
	PRIMARY KEY (study, number), 
	FOREIGN KEY(study) REFERENCES whyrank_study (id) ON DELETE CASCADE
);
INSERT INTO "whyrank_study_case" VALUES('s1',1,'ann','inn',NULL,'["quiet"]','["quiet", "clean"]','["clean", "rude"]');
INSERT INTO "whyrank_study_case" VALUES('s1',2,'ann','inn',NULL,'["quiet"]','["quiet", "clean"]','["clean", "rude"]');
COMMIT;
