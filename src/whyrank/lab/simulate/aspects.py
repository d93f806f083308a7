"""What the simulated people talk about, aspect by aspect.

Fields, separated by `|`: name | nouns | praise | blame | tails; an indented line goes on with the one before.
A name ending in `=` takes no general praise or blame ("Great queue"). A noun ending in `*` is plural. An
adjective ending in `!` is extreme ("absolutely spotless", never "very spotless"), in `~` takes no modifier.
A tail starting with `^` belongs to the noun ("Great location near the station"), others also follow the verb
("was slow at noon"); one starting with `+` goes with praise only, with `-` with blame only. Aspects stand in
order of importance: a small data set uses the first ones.
"""

HOTEL = """
location | location, hotel location | central, convenient, handy, walkable, ideal!
  | inconvenient, remote, isolated, dull
  | +^near the station, +^in the old town, +^for sightseeing, +^by the river, -^by the motorway
staff | staff*, front desk staff*, reception team
  | friendly, helpful, attentive, welcoming, professional, outstanding!
  | rude, unhelpful, indifferent, unfriendly, arrogant, hopeless!
  | at the desk, from start to finish, all week, at night
cleanliness | room, bedroom, carpet | clean, fresh, tidy, well kept, spotless!, immaculate!
  | dirty, dusty, stained, smelly, musty, filthy! | on arrival, every day, ^on the top floor
bed | bed, mattress, pillows* | comfortable, soft, cosy, supportive, heavenly!
  | uncomfortable, hard, lumpy, saggy, creaky, worn out~
  | ^in the double room, ^in the suite, for a tall person
breakfast | breakfast, breakfast buffet, breakfast selection
  | generous, varied, tasty, fresh, plentiful, delicious!
  | limited, boring, stale, bland, cold, inedible! | every morning, for the price, at the weekend
room size | double room, single room, suite | spacious, roomy, generous, airy, huge!
  | small, cramped, narrow, tight, claustrophobic, tiny! | for two people, for a family, for the price
bathroom | bathroom, washbasin, bathtub | modern, clean, bright, stylish, gleaming!
  | dated, mouldy, grubby, shabby, leaky, disgusting! | ^in the suite, ^in the family room, on arrival
view | view, sea view, view from the room | beautiful, romantic, impressive, scenic, stunning!, breathtaking!
  | gloomy, depressing, obstructed, dreary, bleak, hideous! | at sunset, in the morning, ^over the bay
pool | pool, rooftop pool, pool area | clean, relaxing, inviting, refreshing, gorgeous!
  | dirty, crowded, cold, noisy, murky, freezing! | in the afternoon, all day, ^with the sun loungers
quiet | surroundings*, corridor, street side | quiet, peaceful, calm, restful, silent!
  | noisy, loud, rowdy, busy, restless, deafening! | at night, early in the morning, at the weekend
wifi | wifi, internet connection, wireless signal | fast, reliable, stable, strong, free~, flawless!
  | slow, unreliable, patchy, weak, expensive, useless! | in the room, in the lobby, in the evening
price | price, room rate, nightly rate | reasonable, fair, attractive, sensible, unbeatable!
  | high, steep, excessive, unreasonable, unjustified, outrageous!
  | for the area, in high season, for a weekend
check-in | check-in, check-in process, arrival | smooth, quick, easy, efficient, effortless!
  | slow, chaotic, confusing, tedious, disorganised, endless! | late at night, after a long flight, at noon
parking | parking, underground garage, car park | safe, easy, convenient, affordable, free~
  | expensive, narrow, tight, inconvenient, full~, extortionate!
  | ^behind the hotel, at the weekend, overnight
restaurant | dinner, evening menu, hotel food | tasty, refined, creative, generous, delicious!, superb!
  | overpriced, bland, greasy, uninspired, cold, inedible! | in the evening, for a hotel, ^on the terrace
bar | bar, rooftop bar, hotel lounge | lively, relaxed, stylish, cosy, fabulous!
  | dead~, overpriced, noisy, dull, understaffed, soulless! | after dinner, at happy hour, late in the evening
shower | shower, water pressure, hot water | powerful, strong, reliable, refreshing, steady, superb!
  | weak, erratic, lukewarm, unreliable, pitiful! | in the morning, on the top floor, all week
climate | air conditioning, heating, room temperature | quiet, effective, reliable, pleasant, efficient
  | noisy, broken~, weak, erratic, stuffy, useless! | at night, in the bedroom, in the heat of August
lobby | lobby, entrance hall, reception area | elegant, bright, welcoming, impressive, grand!
  | dark, shabby, crowded, gloomy, uninviting, dingy! | on arrival, in the evening, ^with the old furniture
decor | decor, furniture, interior design | stylish, tasteful, charming, modern, elegant, gorgeous!
  | dated, tired, shabby, tacky, worn, hideous! | in the room, throughout the hotel, ^in the hallways
beach | beach, private beach, hotel beach | clean, quiet, sandy, beautiful, pristine!
  | crowded, dirty, rocky, narrow, littered, filthy! | in summer, early in the morning, ^across the road
spa | spa, sauna, massage | relaxing, soothing, luxurious, calming, heavenly!
  | crowded, overpriced, cold, tired, disappointing | after a long day, in winter, on Sunday
gym | gym, fitness room, gym equipment | modern, well equipped, bright, clean, superb!
  | tiny!, outdated, stuffy, broken~, cramped | early in the morning, for a hotel, ^in the basement
transport | airport shuttle, bus connection, metro connection | quick, convenient, punctual, easy, frequent
  | slow, unreliable, late, inconvenient, infrequent | into town, on Sunday, early in the morning
lift | lift, elevator | fast, modern, spacious, reliable | slow, broken~, cramped, creaky, scary
  | at breakfast time, all week, ^to the top floor
children | kids club, playground, family room | fun, safe, imaginative, colourful, brilliant!
  | boring, closed~, unsafe, shabby, dull | for toddlers, all day, for older children
housekeeping | housekeeping, cleaning staff*, maid service
  | thorough, discreet, reliable, careful, impeccable!
  | careless, sloppy, irregular, late, intrusive | every day, at the weekend, in the afternoon
coffee | coffee, espresso machine, tea selection | strong, rich, fresh, aromatic, superb!
  | weak, bitter, watery, lukewarm, undrinkable! | at breakfast, in the room, in the lobby
balcony | balcony, terrace, patio | sunny, private, spacious, charming, lovely
  | tiny!, dirty, dark, overlooked, windy | in the evening, ^on the third floor, ^facing the garden
garden | garden, courtyard, grounds* | beautiful, green, peaceful, well kept, enchanting!
  | neglected, bare, overgrown, littered, dreary | in spring, after dark, ^behind the hotel
room service | room service, late night menu, minibar | prompt, polite, quick, affordable, flawless!
  | slow, overpriced, cold, unreliable, impolite, exorbitant! | late at night, at breakfast time, on Sunday
entertainment | live music, evening show, entertainment | original, fun, entertaining, varied, brilliant!
  | boring, loud, old, repetitive, dreadful! | in the evening, at the weekend, every night
towels | towels*, bed linen, bathrobes* | soft, fluffy, fresh, clean, luxurious
  | thin, scratchy, stained, threadbare, damp, grey | every day, on arrival, ^at the pool
kitchen | kitchenette, kitchen, cooking corner | practical, clean, handy, modern, complete~
  | dirty, noisy, broken~, basic, incomplete~ | ^in the apartment, for a family, on arrival
safety | neighbourhood, area, street | safe, lively, charming, pleasant, friendly
  | unsafe, rough, dodgy, deserted, seedy | at night, after dark, for women alone
events | conference room, meeting room, wedding reception
  | bright, well equipped, elegant, professional, magical!
  | stuffy, dark, badly organised~, cramped, chaotic
  | for large groups, in the afternoon, ^on the ground floor
"""

MOVIE = """
story | story, plot, storyline | gripping, original, touching, clever, moving, brilliant!
  | predictable, thin, confusing, silly, boring, ridiculous!
  | from start to finish, in the second half, for a thriller
acting | acting, lead performance, cast | convincing, believable, strong, natural, superb!
  | wooden, flat, stiff, unconvincing, forced, atrocious! | throughout, in every scene, for a newcomer
characters | characters*, main character, villain | likeable, believable, complex, memorable, unforgettable!
  | shallow, annoying, one-dimensional, bland, unlikeable, insufferable!
  | throughout, from the first scene, in the end
ending | ending, final scene, twist | satisfying, surprising, moving, clever, perfect!
  | rushed, predictable, unsatisfying, abrupt, disappointing, ridiculous!
  | after all that, for a drama, for a sequel
pace | pace, first hour, middle part | brisk, lively, steady, tense, breathless!
  | slow, sluggish, uneven, tedious, dragging, endless! | at times, for an action film, for three hours
music | soundtrack, score, music | haunting, memorable, catchy, beautiful, stunning!
  | intrusive, loud, generic, annoying, repetitive, grating! | throughout, in the opening scene, in the finale
effects | special effects*, animation, visual effects*
  | impressive, realistic, convincing, spectacular!, stunning!
  | cheap, fake, dated, clumsy, laughable! | on a big screen, in the battle scenes, for its time
humour | humour, jokes*, comedy | funny, clever, witty, dry, hilarious!
  | stale, crude, forced, childish, unfunny, painful! | from start to finish, for adults, for all ages
dialogue | dialogue, script, screenplay | sharp, witty, natural, smart, brilliant!
  | clumsy, lazy, wooden, cheesy, pretentious, cringeworthy! | throughout, in the love scenes, at times
directing | directing, direction, camera work | confident, inventive, subtle, skilful, masterful!
  | clumsy, shaky, lazy, uninspired, heavy-handed, inept! | throughout, for a first film, in the action scenes
picture | picture quality, transfer, image | sharp, crisp, clean, vivid, flawless!
  | grainy, blurry, dark, soft, muddy, unwatchable! | on a large screen, on this edition, in the night scenes
sound | sound, sound mix, audio track | clear, rich, powerful, balanced, immersive, superb!
  | muffled, thin, uneven, quiet, tinny, dreadful! | on this edition, in surround, in the quiet scenes
family | family movie, film for children, cartoon
  | charming, sweet, heartwarming, funny, delightful!, magical!
  | violent, scary, dull, noisy, childish, unsuitable | for the little ones, for all ages, on a rainy Sunday
action | action, fight scenes*, car chases* | exciting, intense, inventive, fast, thrilling!, breathtaking!
  | repetitive, confusing, choppy, messy, pointless, exhausting!
  | from start to finish, in the last act, for fans
suspense | suspense, tension, mystery | gripping, intense, clever, subtle, nerve-racking!
  | weak, predictable, flat, artificial, missing~, nonexistent!
  | until the very end, in the first half, for a thriller
romance | romance, love story, chemistry | sweet, tender, believable, touching, enchanting!
  | cheesy, forced, cold, bland, awkward, unbearable! | between the leads, for a comedy, in the end
horror | scares*, horror scenes*, monster | creepy, eerie, effective, scary, terrifying!
  | tame, cheap, predictable, silly, laughable! | at night, for horror fans, in the first hour
price | price, box set, bargain edition | fair, reasonable, cheap, attractive, unbeatable!
  | high, steep, excessive, overpriced, outrageous! | for a box set, for one disc, for collectors
packaging | packaging, disc, case | sturdy, neat, attractive, solid, gorgeous!
  | flimsy, damaged~, scratched~, cheap, broken~ | on arrival, for a gift, ^of the special edition
delivery | delivery, shipping, seller | fast, prompt, reliable, quick, flawless!
  | slow, late, careless, unreliable, endless! | before Christmas, for a gift, from abroad
extras | extras*, bonus features*, commentary | interesting, generous, informative, entertaining, fascinating!
  | thin, boring, skimpy, pointless, missing~ | on the second disc, on this edition, for fans
costumes | costumes*, set design, scenery | beautiful, detailed, authentic, colourful, lavish, gorgeous!
  | cheap, fake, dull, drab, inaccurate, hideous! | for the period, in every scene, in the palace scenes
adaptation | adaptation, film version, remake | faithful, respectful, clever, fresh, excellent!
  | unfaithful, lazy, shallow, needless, pointless, insulting!
  | ^of the novel, for fans of the book, for newcomers
season | first season, series, finale | addictive, strong, gripping, consistent, outstanding!
  | weak, tired, repetitive, boring, disappointing, unwatchable!
  | from episode one, for long-time fans, after a slow start
message | message, theme, moral | powerful, thoughtful, timely, inspiring, profound!
  | preachy, shallow, confused, obvious, heavy-handed, offensive! | for young people, in the end, for a comedy
history | historical detail, documentary, research | accurate, thorough, informative, balanced, fascinating!
  | sloppy, biased, inaccurate, superficial, misleading, worthless!
  | for students, for a feature film, ^on the war years
subtitles | subtitles*, dubbing, translation | accurate, clear, readable, natural, flawless!
  | wrong~, tiny!, clumsy, out of sync~, sloppy, unreadable! | on this edition, throughout, in the fast scenes
length= | running time, runtime, extended cut | right~, compact, comfortable, well judged, perfect!
  | long, excessive, bloated, tiring, endless! | for children, for such a story, for one evening
editing | editing, cut, montage | tight, smooth, rhythmic, clever, seamless!
  | choppy, confusing, clumsy, frantic, messy, incoherent! | in the action scenes, throughout, in the last act
childhood | childhood classic, old classic, holiday classic
  | timeless, charming, nostalgic, lovely, wonderful!
  | dated, slow, corny, faded, overrated | for all generations, at Christmas, after all these years
streaming | streaming quality, digital version, download | smooth, stable, quick, sharp, flawless!
  | jerky, unstable, slow, blurry, unreliable, unusable! | on a tablet, in the evening, on the television
workout | workout, yoga session, instructor | motivating, clear, effective, varied, energetic, brilliant!
  | boring, confusing, repetitive, rushed, exhausting! | for beginners, in a small room, for older people
concert | concert, live performance, setlist | electric, energetic, intimate, emotional, unforgettable!
  | short, flat, lifeless, badly filmed~, dull | for old fans, from start to finish, in the second half
world | fantasy world, atmosphere, setting | rich, immersive, imaginative, moody, magical!
  | bland, generic, empty, unconvincing, dreary, lifeless!
  | from the first minute, for fantasy fans, throughout
crime | detective, case of the week, court scenes* | clever, gripping, intriguing, charming, brilliant!
  | implausible, dull, formulaic, predictable, absurd!
  | in every episode, until the last minute, for crime fans
"""

RESTAURANT = """
food | food, cooking, main course | tasty, flavourful, fresh, authentic, delicious!, divine!
  | bland, greasy, cold, salty, tasteless, inedible! | every time, for the price, from starter to dessert
service | service, table service, waiting staff* | friendly, attentive, prompt, polite, impeccable!
  | slow, rude, inattentive, careless, unfriendly, atrocious!
  | from start to finish, on a busy night, at lunch
staff | waiter, waitress, servers* | friendly, helpful, patient, knowledgeable, charming, wonderful!
  | rude, pushy, impatient, distracted, grumpy, clueless! | at the bar, all evening, with the kids
price | prices*, bill, lunch deal | reasonable, fair, modest, attractive, unbeatable!
  | high, steep, unreasonable, inflated, excessive, outrageous!
  | for the quality, for the area, for two people
portions | portions*, servings*, side dishes* | generous, filling, large, hearty, huge!
  | small, stingy, skimpy, measly, laughable! | for the price, for a hungry family, at lunch
atmosphere | atmosphere, ambience, vibe | cosy, relaxed, lively, romantic, warm, magical!
  | cold, stiff, gloomy, hectic, sterile, depressing! | in the evening, at the weekend, ^for a date
cleanliness | place, dining room, kitchen | clean, tidy, bright, well kept, spotless!
  | dirty, sticky, grubby, smelly, messy, filthy! | on a weekday, at closing time, in every corner
location | location, street corner, neighbourhood | convenient, central, charming, handy, ideal!
  | remote, inconvenient, noisy, dodgy, hidden~
  | +^near the theatre, +^by the water, +^in the old town, -^by the motorway, -after dark
waiting= | wait, wait for a table, queue | short, bearable, quick, reasonable, painless!
  | long, annoying, tedious, unbearable!, endless! | on a Friday night, for brunch, even with a reservation
drinks | drinks*, cocktails*, drink selection | creative, strong, refreshing, balanced, superb!
  | weak, watery, overpriced, sugary, warm, undrinkable! | at the bar, at happy hour, on a hot day
coffee | coffee, espresso, latte | strong, smooth, rich, aromatic, superb!
  | bitter, weak, burnt, lukewarm, watery, undrinkable! | in the morning, after dinner, ^to go
dessert | dessert, cheesecake, ice cream | creamy, light, rich, homemade~, heavenly!
  | dry, sugary, frozen~, heavy, stale, tasteless | after dinner, for the price, ^with fresh fruit
pizza | pizza, pizza crust, pizza slices* | crispy, thin, fresh, cheesy, delicious!
  | soggy, burnt, greasy, doughy, cold, inedible! | every time, from the oven, ^by the slice
burger | burger, burgers*, cheeseburger | juicy, tender, big, tasty, fantastic!
  | dry, greasy, overcooked, tiny!, bland, disgusting! | at lunch, for the price, ^with bacon
sushi | sushi, sashimi, sushi rolls* | fresh, delicate, tender, inventive, exquisite!
  | warm, fishy, rubbery, dry, stale, inedible! | at the counter, for the price, on a Monday
steak | steak, ribs*, brisket | tender, juicy, smoky, well seasoned, flawless!
  | tough, dry, fatty, overcooked, chewy, burnt | every time, for the price, ^with pepper sauce
tacos | tacos*, burrito, salsa | spicy, fresh, authentic, flavourful, amazing!
  | soggy, bland, dry, greasy, tasteless, dreadful! | on Tuesday, at lunch, ^from the truck
noodles | noodles*, ramen, broth | rich, silky, spicy, hearty, fragrant, incredible!
  | bland, salty, mushy, watery, oily, tasteless | on a cold day, at lunch, late at night
breakfast | breakfast, pancakes*, brunch | fluffy, hearty, filling, fresh, delicious!
  | cold, greasy, dry, boring, heavy, inedible! | at the weekend, all day, for the price
vegetarian | vegetarian menu, vegan dishes*, salad bar | varied, creative, fresh, colourful, inspiring
  | limited, boring, wilted, bland, pathetic! | for vegans, at lunch, even for meat eaters
seafood | seafood, grilled fish, oysters* | fresh, tender, light, flavourful, superb!
  | fishy, frozen~, dry, rubbery, overcooked, inedible! | ^of the day, on the terrace, for the price
menu | menu, wine list, selection | varied, interesting, creative, well chosen, extensive, outstanding!
  | limited, boring, confusing, tired, pretentious | for a small place, at lunch, for children
terrace | terrace, patio, outdoor seating | sunny, shady, charming, quiet, gorgeous!
  | crowded, noisy, windy, dirty, cramped | in summer, at sunset, ^by the river
noise= | noise level, music, dining area | pleasant, quiet, calm, relaxed, comfortable
  | loud, noisy, annoying, unbearable!, deafening! | at dinner, on Saturday, for a conversation
decor | decor, interior, furniture | stylish, tasteful, rustic, charming, modern, stunning!
  | dated, tacky, shabby, dull, worn, hideous! | after the renovation, in the back room, ^with the old photos
parking | parking, parking lot, valet service | easy, safe, free~, quick, convenient
  | difficult, tight, expensive, full~, chaotic, impossible! | at the weekend, after six, ^behind the building
beer | beer, craft beer, tap list | fresh, cold, local~, varied, outstanding!
  | flat, warm, overpriced, stale, undrinkable! | on tap, after work, on game night
wine | wine, house wine, wine pairing | smooth, elegant, affordable, well chosen, exquisite!
  | sour, warm, overpriced, cheap, undrinkable! | ^by the glass, with the cheese, for the price
delivery | delivery, takeout, online order | fast, reliable, hot, punctual, flawless!
  | late, cold, wrong~, slow, unreliable, incomplete~ | on a rainy day, late at night, at the weekend
reservation | reservation, booking, hostess | smooth, easy, flexible, welcoming, effortless!
  | chaotic, confusing, impolite, disorganised, useless!
  | for a large group, on short notice, on Valentine's Day
children | kids menu, play area, kids meals* | fun, varied, colourful, thoughtful, brilliant!
  | boring, dull, overpriced, limited, unimaginative | for toddlers, at the weekend, for picky eaters
bread | bread, pastries*, croissants* | fresh, warm, crusty, buttery, flaky, irresistible!
  | stale, dry, hard, soggy, burnt | every morning, from the oven, at noon
chicken | chicken, wings*, fried chicken | crispy, juicy, tender, spicy, fantastic!
  | dry, greasy, pink, rubbery, soggy, inedible! | at lunch, on game night, ^with honey sauce
curry | curry, rice, naan | fragrant, spicy, creamy, rich, authentic, superb!
  | watery, bland, oily, mushy, salty, tasteless | at the buffet, on a cold day, for the price
pasta | pasta, lasagne, sauce | homemade~, creamy, rich, fresh, heavenly!
  | overcooked, bland, watery, oily, sticky, tasteless | at lunch, every time, ^with mushrooms
toilets | toilets*, restroom, washroom | clean, modern, bright, accessible~, spotless!
  | dirty, smelly, broken~, cramped, disgusting! | at the back, on a busy night, all evening
"""
